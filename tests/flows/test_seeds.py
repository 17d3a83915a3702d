"""`evaluate.seeds`: each run kept, the best one in front, the spread told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tonetune.api import job


@pytest.mark.slow
def test_three_seeds(
    cli: Any, quick: list[str], emotion_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, whole = [], job.baseline_report
    monkeypatch.setattr(job, "baseline_report", lambda *task, **given: measured.append(1) or whole(*task, **given))
    settings = ["evaluate.seeds=3", "train.seed=5", "train.epochs=1", f"run.dir={tmp_path}"]
    flags = [part for setting in settings for part in ("--set", setting)]
    document = cli("train", "--data", emotion_files["en.csv"], *quick, *flags, "--json").document
    run = Path(document["run"])
    assert sorted(path.name for path in (run / "seeds").iterdir()) == ["5", "6", "7"]
    assert list(tmp_path.iterdir()) == [run]
    values = {seed: json.loads((run / f"seeds/{seed}/best.json").read_text())["value"] for seed in (5, 6, 7)}
    seeds = json.loads((run / "seeds.json").read_text())
    assert seeds["best"] == max(values, key=lambda seed: values[seed])
    best = run / "seeds" / str(seeds["best"])
    assert (run / "adapter/adapter_model.safetensors").read_bytes() == (
        best / "adapter/adapter_model.safetensors"
    ).read_bytes()
    assert document["tuned"] == seeds["tuned"][str(seeds["best"])] and document["seeds"]["best"] == seeds["best"]
    accuracies = [tuned["accuracy"] for tuned in seeds["tuned"].values()]
    assert seeds["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))
    assert seeds["accuracy"]["range"] == [min(accuracies), max(accuracies)]
    assert measured == [1]  # on the same rows the baselines are the same
    for name in ("report.json", "predictions.jsonl"):
        assert len({(run / where / "eval/baselines" / name).read_bytes() for where in ("", "seeds/5", "seeds/7")}) == 1
    splits = {(run / f"seeds/{seed}/splits/test.jsonl").read_bytes() for seed in (5, 6, 7)}
    assert splits == {(run / "splits/test.jsonl").read_bytes()}  # the same rows, whatever the seed
    losses = {(run / f"seeds/{seed}/metrics.jsonl").read_bytes() for seed in (5, 6, 7)}
    assert len(losses) == 3
    record, config = json.loads((run / "run.json").read_text()), (run / "config.yaml").read_text()
    assert record["status"] == "finished" and record["run"] == str(run)
    assert "seeds: 3" in config and "seed: 5" in config
    assert "Over 3 seeds: accuracy" in (run / "README.md").read_text(encoding="utf-8")
    report = cli("evaluate", run, "--json").document
    assert report["tuned"]["accuracy"] == pytest.approx(document["tuned"]["accuracy"])
