"""`tonetune compare` and `tonetune report`: two runs on the same rows, and the page of one written anew."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def other(run: Path, tmp_path: Path) -> Path:
    """A copy of the run that is wrong about ten more of its test rows, with another rank."""
    copy = tmp_path / "other"
    shutil.copytree(run, copy)
    path = copy / "eval/test/predictions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in [row for row in rows if row["label"] == row["gold"]][:10]:
        row["label"] = next(label for label in row["scores"] if label != row["gold"])
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)), encoding="utf-8")
    config = copy / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("rank: 8", "rank: 4"), encoding="utf-8")
    return copy


def test_a_worse_run_is_called_worse(cli: Any, run: Path, other: Path) -> None:
    document = cli("compare", run, other, "--json").document
    assert {"difference", "ci95", "p_value", "config_diff", "verdict", "rows", "n", "runs"} <= set(document)
    for key in ("difference", "ci95", "p_value"):
        assert set(document[key]) == {"accuracy", "macro_f1"}
    assert document["difference"]["accuracy"] == pytest.approx(-10 / document["n"])
    assert document["p_value"]["accuracy"] == pytest.approx(2 / 2**10)
    assert document["config_diff"] == {"lora.rank": [8, 4]}
    assert (document["rows"]["won"]["count"], document["rows"]["lost"]["count"]) == (0, 10)
    assert all(row["first"] == row["gold"] != row["second"] for row in document["rows"]["lost"]["examples"])
    assert "worse than" in document["verdict"] and "more than noise" in document["verdict"]
    told = cli("compare", run, other)
    assert told.out == "" and "lora.rank" in told.err and "lost by the second: 10 rows" in told.err


def test_a_run_is_equal_to_itself(cli: Any, run: Path) -> None:
    document = cli("compare", run, run, "--json").document
    assert document["p_value"] == {"accuracy": 1.0, "macro_f1": 1.0} and document["config_diff"] == {}
    assert document["verdict"].count("equal to") == document["verdict"].count("within the noise") == 2


def test_other_rows_are_refused(cli: Any, run: Path, other: Path) -> None:
    path = other / "eval/test/predictions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[1:]), encoding="utf-8")
    error = cli("compare", run, other, "--json").error(code=3)
    assert f"{len(lines)} and {len(lines) - 1}, {len(lines) - 1} of them in both" in error["what"]
    path.unlink()
    assert "predictions.jsonl" in cli("compare", run, other, "--json").error(code=3)["where"]
    assert cli("compare", run, other / "absent", "--json").error(code=3)


def test_baselines_keep_their_predictions_of_the_same_rows(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "eval/baselines/predictions.jsonl").read_text().splitlines()]
    tested = [json.loads(line) for line in (run / "eval/test/predictions.jsonl").read_text().splitlines()]
    assert [(row["text"], row["gold"]) for row in rows] == [(row["text"], row["gold"]) for row in tested]
    for method in ("majority", "tfidf", "zero_shot", "zero_shot_calibrated"):
        report = json.loads((run / "eval/baselines/report.json").read_text())[method]
        right = sum(row[method] == row["gold"] for row in rows)
        assert report["accuracy"] == pytest.approx(right / len(rows))


def test_a_report_is_written_anew(cli: Any, other: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra report")
    (other / "report.html").unlink(missing_ok=True)
    assert cli("report", other, "--json").document == {"path": str(other / "report.html"), "missing": []}
    assert (other / "report.html").is_file()
    assert cli("report", other / "splits", "--json").error(code=3)
