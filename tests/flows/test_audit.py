"""`tonetune audit`: the document, words for a person, and the exit code of a gate."""

import json
from pathlib import Path
from typing import Any

NUMBERS = {
    "n": 1200,
    "class_counts": {"bad": 600, "good": 600},
    "accuracy": 0.75,
    "per_label": {"bad": {"recall": 0.72}},
}


def written(directory: Path, **changes: object) -> Path:
    path = directory / "numbers.json"
    path.write_text(json.dumps({**NUMBERS, **changes}), encoding="utf-8")
    return path


def test_numbers_that_can_be_true(cli: Any, tmp_path: Path) -> None:
    result = cli("audit", written(tmp_path), "--json")
    assert (result.code, result.document) == (0, {"verdict": "possible", "findings": []})


def test_numbers_that_cannot(cli: Any, tmp_path: Path) -> None:
    path = written(tmp_path, accuracy=0.91, chance_level=0.594)
    result = cli("audit", path, "--json")
    assert result.code == 7 and result.document["verdict"] == "impossible"
    for finding in result.document["findings"]:
        assert set(finding) == {"numbers", "reported", "rule", "consistent", "what"}
    told = cli("audit", path)
    assert told.code == 7 and told.out == "" and told.err.count("impossible: ") == 2
    assert cli("audit", path, "-q").err == ""


def test_a_run_s_own_report_passes(cli: Any, run: Path) -> None:
    assert cli("audit", run / "eval/test/report.json", "--json").document["verdict"] == "possible"


def test_what_is_no_report(cli: Any, tmp_path: Path) -> None:
    error = cli("audit", written(tmp_path, accuracy="high"), "--json").error(code=3)
    assert error["what"].startswith("accuracy: ")
