"""`tonetune evaluate`: the same numbers as training gave, on any split, and on files labelled as the run's were."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny


def same(one: Any, other: Any) -> bool:
    """Equal documents, numbers within what float32 arithmetic in another order may change."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)
    return bool(one == other)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_split_gives_what_training_wrote(cli: Any, run: Path, split: str) -> None:
    report = cli("evaluate", run, "--split", split, "--json").document
    assert report.pop("run") == str(run)
    assert {"labels", "tuned", "per_label", "confusion", "ece", "temperature"} <= set(report)
    assert same(report, json.loads((run / "eval" / split / "report.json").read_text(encoding="utf-8")))


def test_a_file_of_the_test_rows_gives_the_test_results(cli: Any, run: Path, tmp_path: Path) -> None:
    lines = (run / "splits/test.jsonl").read_text(encoding="utf-8").splitlines()
    data = tiny.write_rows(tmp_path / "rows.csv", [(row["text"], row["label"]) for row in map(json.loads, lines)])
    on_file = cli("evaluate", run, "--data", data, "--json").document
    on_split = cli("evaluate", run, "--json").document
    assert (on_file.pop("split"), on_split.pop("split")) == ("data", "test")
    assert same(on_file, on_split)


def test_labels_in_another_order_than_in_training_are_a_warning(cli: Any, run: Path, tmp_path: Path) -> None:
    texts = tiny.write_rows(tmp_path / "texts.csv", tiny.emotion_rows("en", 80, seed=31))
    answers = [(row["text"], row["label"]) for row in cli("predict", run, texts, "--json").document["rows"]]
    names = sorted(tiny.CUES["en"])
    shifted = dict(zip(names, names[1:] + names[:1], strict=True))
    right = tiny.write_rows(tmp_path / "right.csv", answers)
    wrong = tiny.write_rows(tmp_path / "wrong.csv", [(text, shifted[label]) for text, label in answers])
    assert "warning" not in cli("evaluate", run, "--data", right).err
    said = " ".join(cli("evaluate", run, "--data", wrong).err.split())
    assert "warning: most answers would be right under other names" in said
    assert "anger as fear" in said


def test_people_get_tables_on_stderr_and_quiet_ones_nothing(cli: Any, run: Path) -> None:
    result = cli("evaluate", run)
    assert result.code == 0 and result.out == ""
    for word in ("accuracy:", "macro-F1:", "per label", "confusion", "joy"):
        assert word in result.err
    quiet = cli("evaluate", run, "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_an_unknown_label_names_its_row(cli: Any, run: Path, tmp_path: Path) -> None:
    data = tiny.write_rows(tmp_path / "new.csv", [("a happy day", "joy"), ("what a surprise", "surprise")])
    error = cli("evaluate", run, "--data", data, "--json").error(code=3)
    assert error["where"] == "new.csv:3"
    assert "'surprise'" in error["what"] and "joy" in error["what"]


@pytest.mark.slow
def test_renamed_labels_are_renamed_in_other_files_too(cli: Any, quick: list[str], tmp_path: Path) -> None:
    codes = {"joy": "pos", "sadness": "neg", "anger": "neg", "fear": "neg"}
    rename = json.dumps({"pos": "positive", "neg": "negative"})
    data = tiny.write_rows(tmp_path / "codes.csv", [(t, codes[c]) for t, c in tiny.emotion_rows("en", 80)])
    flags = ["--set", f"data.rename={rename}", "--set", f"run.dir={tmp_path}", "--json"]
    run = cli("train", "--data", data, *quick, *flags).document["run"]
    report = cli("evaluate", run, "--data", data, "--json").document
    assert report["labels"] == ["negative", "positive"]
    assert report["tuned"]["n"] == 80


@pytest.mark.slow
def test_a_run_trained_in_another_type_is_loaded_in_it(cli: Any, quick: list[str], tmp_path: Path) -> None:
    """Whatever this processor is quick in, the numbers are those of the type that was trained."""
    data = tiny.write_rows(tmp_path / "en.csv", tiny.emotion_rows("en", 80))
    for dtype in ("bfloat16", "float32"):
        flags = ["--set", f"model.dtype={dtype}", "--set", "train.epochs=1", "--set", f"run.dir={tmp_path}", "--json"]
        run = Path(cli("train", "--data", data, *quick, *flags).document["run"])
        told = json.loads((run / "eval/test/report.json").read_text(encoding="utf-8"))
        assert same(cli("evaluate", run, "--json").document, {"run": str(run), **told})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--split", "dev"], 2), (["--data", "absent.csv"], 3)],
)
def test_wrong_questions_are_answered(cli: Any, run: Path, arguments: list[str], code: int) -> None:
    error = cli("evaluate", run, *arguments, "--json").error(code=code)
    assert arguments[1] in error["what"] + str(error["where"])


def test_an_adapter_alone_asks_for_rows(cli: Any, run: Path, emotion_files: dict[str, Path]) -> None:
    assert "--data" in cli("evaluate", run / "adapter", "--json").error(code=2)["hint"]
    report = cli("evaluate", run / "adapter", "--data", emotion_files["en.csv"], "--json").document
    assert report["tuned"]["n"] == 200


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_is_no_run_is_a_data_error(cli: Any, tmp_path: Path, name: str) -> None:
    assert "run" in cli("evaluate", tmp_path / name, "--json").error(code=3)["hint"]
