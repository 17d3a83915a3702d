"""Every family in every layout: trained, saved, and the same in a fresh process."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny

import tonetune

FRESH = """
import json, sys
import tonetune
for line in sys.stdin:
    run, texts = json.loads(line)
    print(json.dumps(tonetune.load(run).predict_proba(texts).tolist()))
"""


@pytest.mark.slow
def test_a_run_of_each_family_answers_the_same_in_a_fresh_process(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    data = tiny.write_rows(tmp_path / "rows.csv", tiny.emotion_rows("en", 60))
    asked, expected = [], []
    for family in tiny.FAMILIES:
        config = {
            "model": {"base": str(tiny_model(family)), "load_gate": "off", "dtype": "float32"},
            "data": {"train": str(data), "max_length": 16},  # some texts are longer
            "lora": {"targets": "all-linear"},
            "train": {"epochs": 1, "learning_rate": 0.01, "batch": 8},
            "run": {"dir": str(tmp_path / "runs")},
        }
        run = tonetune.train(config).path
        rows = [json.loads(line) for line in (run / "eval/test/predictions.jsonl").read_text("utf-8").splitlines()]
        assert json.loads((run / "data.json").read_text("utf-8"))["tokens"]["truncated_texts"]
        asked.append(json.dumps([str(run), [row["text"] for row in rows]]))
        expected.append([list(row["scores"].values()) for row in rows])
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, encoding="utf-8", check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for family, ours, theirs in zip(tiny.FAMILIES, found, expected, strict=True):
        assert np.array_equal(ours, theirs), family
