"""Real rows of both languages through `prepare` and a few steps of `train`."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

FILES = {
    "zh_ewect_usual": ("zh", ["angry", "fear", "happy", "neutral", "sad", "surprise"], "validation", True),
    "en_tweeteval_emotion": ("en", ["anger", "joy", "optimism", "sadness"], "train", True),
    "en_film_reviews_rt": ("en", ["0", "1"], "train", False),
}


@pytest.mark.parametrize("name", FILES)
def test_real_rows_train(cli: Any, quick: list[str], shared_data: Path, tmp_path: Path, name: str) -> None:
    language, labels, split, has_words = FILES[name]
    data = shared_data / name / "train.csv"
    out = tmp_path / "prepared"
    counts = cli("prepare", data, "--out", out, "--json").document
    files = json.loads((out / "data.json").read_text(encoding="utf-8"))["files"]
    assert sum(counts["splits"].values()) + sum(counts["dropped"].values()) == files[0]["rows"]
    assert json.loads((out / "labels.json").read_text(encoding="utf-8"))["names"] == labels
    flags = ["--set", "train.epochs=0.05", "--set", f"run.dir={tmp_path}", "--json"]
    result = cli("train", "--data", out / f"splits/{split}.jsonl", *quick, *flags)
    summary = result.document
    record = json.loads((Path(summary["run"]) / "run.json").read_text(encoding="utf-8"))
    assert record["prompt"]["language"] == language
    assert (summary["baselines"]["zero_shot"] is not None) == has_words
    assert summary["baselines"]["tfidf"]["accuracy"] > summary["baselines"]["majority"]["accuracy"] + 0.1
    rows = (Path(summary["run"]) / "eval/test/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == summary["tuned"]["n"] >= 0.14 * counts["splits"][split]
