"""`tonetune sweep` on a tiny model: the document, the table, and going on."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna", reason="needs the extra sweep")


@pytest.mark.slow
def test_a_grid_of_two(cli: Any, quick: list[str], emotion_files: dict[str, Path], tmp_path: Path) -> None:
    flags = ["--data", emotion_files["en.csv"], *quick, "--set", "train.epochs=1", "--out", tmp_path / "sweep"]
    flags += ["--try", "train.learning_rate=0.001,0.02"]
    result = cli("sweep", *flags, "--json")
    assert result.code == 0, result.err
    trials, best = result.document["trials"], result.document["best"]
    assert [trial["changes"]["train.learning_rate"] for trial in trials] == ["0.001", "0.02"]
    assert best["value"] == max(trial["value"] for trial in trials)
    assert best["test"]["n"] > 0 and (Path(best["run"]) / "adapter").is_dir()
    again = cli("sweep", *flags)
    assert again.out == "" and "train.learning_rate=0.02" in again.err and "best on validation" in again.err
    assert "loading" not in again.err
    assert len(list((tmp_path / "sweep" / "runs").iterdir())) == 2


def test_nothing_to_vary_is_said(cli: Any, tmp_path: Path) -> None:
    error = cli("sweep", "--out", tmp_path / "sweep", "--json").error(code=2)
    assert "--try" in error["hint"]
