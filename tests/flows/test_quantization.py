"""A run on a quantised base: the same answers afterwards, and files without bitsandbytes that give them too."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT 0.21, 12/2026
def test_a_run_in_four_bits_is_evaluated_used_and_exported(
    cli: Callable[..., Any], emotion_files: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    model = tiny.write_model(tmp_path / "model", "gemma3_text", hidden_size=64, intermediate_size=128, head_dim=32)
    settings = ("model.load_gate=off", "model.quantization=4bit", "model.dtype=float32", "train.epochs=2")
    settings += ("train.learning_rate=0.01", f"run.dir={tmp_path / 'runs'}")
    flags = [part for setting in settings for part in ("--set", setting)]
    trained = cli("train", "--data", emotion_files["en.csv"], "--model", model, *flags, "--json")
    assert trained.code == 0, trained.err
    run = Path(trained.document["run"])
    manifest, record = (json.loads((run / n).read_text()) for n in ("adapter/tonetune.json", "run.json"))
    assert manifest["quantization"] == record["quantization"] == "4bit"
    assert "quantization: 4bit" in (run / "config.yaml").read_text()
    adapters = json.loads((run / "adapters.json").read_text())
    plain = sum(p.numel() for p in tiny.load(model).body.parameters())
    assert adapters["total"] == plain, "packed values are counted as what they stand for"

    tuned, found = trained.document["tuned"], cli("evaluate", run, "--json").document["tuned"]
    assert found["accuracy"] == tuned["accuracy"] > trained.document["baselines"]["majority"]["accuracy"]
    text = ("-i", "so happy and glad")
    exported = cli("export", run, "--to", "merged", "--out", tmp_path / "merged", "--force", "--json")
    assert exported.code == 0, exported.err
    ours, plain_files = (json.loads(cli("predict", path, *text).out) for path in (run, tmp_path / "merged"))
    assert plain_files["label"] == ours["label"]
    assert plain_files["scores"] == pytest.approx(ours["scores"], abs=1e-4)

    _, plain = re.findall(r"```python\n(.*?)```", (run / "README.md").read_text(), re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(plain.replace("path/to/this/directory", str(run)).replace('"a text"', repr(text[1])), {})
    label, confidence = printed.getvalue().splitlines()[0].split()
    assert label == ours["label"] and float(confidence) == pytest.approx(ours["confidence"], abs=0.02)
