"""Inspection: counts by their definitions, and each problem with its advice."""

import csv
import json
from collections import defaultdict
from pathlib import Path

import pytest

from tonetune.cli.tables import inspection_tables
from tonetune.data.inspect import Inspection, inspect_files
from tonetune.errors import DataError

MESSY = [
    ("great film", "joy"),
    ("great film ", "joy"),
    ("so sad", "sadness"),
    ("so sad", "joy"),
    ("", "joy"),
    ("no label", ""),
    ("long " * 400, "Joy"),
    *((f"text {i}", "joy") for i in range(60)),
    *((f"other {i}", "sadness") for i in range(30)),
    ("a typo", "sadnes"),
]


def inspected(path: Path, rows: list[tuple[str, str]], header: tuple[str, str] = ("text", "label")) -> Inspection:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return inspect_files([path], text="auto", label="auto")


def test_counts_follow_their_definitions(tmp_path: Path) -> None:
    (counts,) = inspected(tmp_path / "a.csv", MESSY).as_dict()["files"]
    labels = defaultdict(set)
    usable = [(text.strip(), label) for text, label in MESSY if text.strip() and label]
    for text, label in usable:
        labels[text].add(label)
    assert counts == {
        "path": str(tmp_path / "a.csv"),
        "encoding": "utf-8",
        "format": "csv",
        "delimiter": ",",
        "sheet": None,
        "rows": len(MESSY),
        "usable": len(usable),
        "empty_text": 1,
        "missing_label": 1,
        "duplicates": len(usable) - len(labels),
        "contradictions": sum(len(found) > 1 for found in labels.values()),
    }


def test_problems_say_what_to_do(tmp_path: Path) -> None:
    problems = {p.code: p for p in inspected(tmp_path / "a.csv", MESSY).problems}
    assert problems.keys() == {
        "empty_text",
        "missing_label",
        "long_text",
        "duplicates",
        "contradictions",
        "near_miss_labels",
        "small_class",
        "imbalance",
    }
    assert problems["empty_text"].example == "a.csv:6"
    rename = problems["near_miss_labels"].advice.split("rename: ")[1]
    assert json.loads(rename) == {"Joy": "joy", "sadnes": "sadness"}
    assert problems["near_miss_labels"].count == 2
    assert problems["small_class"].example == "'Joy' in 1 row, 'sadnes' in 1 row"


def test_one_rename_holds_all_that_may_be_pasted(tmp_path: Path) -> None:
    labels = ["生气", *["愤怒"] * 20, "Angry", "nan", *["joy"] * 20]
    inspection = inspected(tmp_path / "a.csv", [(f"text {i}", label) for i, label in enumerate(labels)])
    assert inspection.as_dict()["rename"] == {"nan": "", "生气": "愤怒", "Angry": "愤怒"}
    for problem in inspection.problems:
        if "labels" in problem.code:
            rename = json.loads(problem.advice.split("rename: ")[1])
            assert rename.items() <= inspection.rename.items() and problem.count == len(rename)


@pytest.mark.parametrize(("most", "least", "said"), [(29, 10, False), (30, 10, True)])
def test_weights_are_recommended_from_three_to_one(tmp_path: Path, most: int, least: int, said: bool) -> None:
    rows = [(f"text {i}", "common" if i < most else "rare") for i in range(most + least)]
    problems = inspected(tmp_path / "a.csv", rows).problems
    assert [p.code for p in problems] == (["imbalance"] if said else [])
    for problem in problems:
        assert "train.class_weights: balanced" in problem.advice and problem.example == "'common' 30 rows, 'rare' 10"


def test_healthy_rows_have_no_problems(tmp_path: Path) -> None:
    assert inspected(tmp_path / "a.csv", [(f"text {i}", "pn"[i % 2]) for i in range(20)]).problems == ()


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([(f"text number {i}", str(i / 3)) for i in range(50)], "numeric_label"),
        ([(f"text {i}", "p") for i in range(50)], "one_class"),
        ([(f"text {i}", "") for i in range(50)], "no_usable_rows"),
        ([(f"text {i}", ["label", "other"][i % 2]) for i in range(50)], "header_is_a_row"),
    ],
)
def test_more_problems(tmp_path: Path, rows: list[tuple[str, str]], code: str) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    assert code in {p.code for p in inspect_files([path], text="text", label="label").problems}


def test_rows_are_written_as_read(tmp_path: Path) -> None:
    inspection = inspected(tmp_path / "a.csv", MESSY)
    assert inspection.write_rows(tmp_path / "out.jsonl") == len(MESSY)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["text"], row["label"] or "") for row in rows] == MESSY
    assert [row["origin"] for row in rows] == [f"a.csv:{line}" for line in range(2, len(MESSY) + 2)]


def test_uncertain_columns_give_candidates_and_write_nothing(shared_data: Path, tmp_path: Path) -> None:
    inspection = inspect_files([shared_data / "en_emocontext_chat" / "train.csv"], text="auto", label="auto")
    document = inspection.as_dict()
    assert document["text_column"] is None
    assert document["candidates"]
    with pytest.raises(DataError, match="turn1"):
        inspection.write_rows(tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_multi_label_rows_without_a_label_are_usable(shared_data: Path) -> None:
    inspection = inspect_files([shared_data / "zh_brighter_chn" / "train.csv"], text="auto", label="auto")
    document = inspection.as_dict()
    (counts,) = document["files"]
    assert (counts["rows"], counts["usable"], counts["missing_label"]) == (2642, 2642, 0)
    with (shared_data / "zh_brighter_chn" / "train.csv").open(encoding="utf-8", newline="") as file:
        angry = sum(row["anger"] == "1" for row in csv.DictReader(file))
    assert document["labels"]["anger"] == angry


def test_several_files_must_share_the_columns(tmp_path: Path) -> None:
    inspected(tmp_path / "a.csv", MESSY)
    inspected(tmp_path / "b.csv", MESSY, header=("body", "label"))
    assert len(inspect_files([tmp_path / "a.csv"] * 2, text="auto", label="auto").as_dict()["files"]) == 2
    with pytest.raises(DataError, match="no column 'text'"):
        inspect_files([tmp_path / "a.csv", tmp_path / "b.csv"], text="auto", label="auto")


def test_many_numbers_as_labels_are_a_measurement_before_they_are_anything_else(tmp_path: Path) -> None:
    rows = [(f"text number {i}", f"{i / 3:.2f}") for i in range(300)] + [("one more text", "\uff11.00")] * 2
    path = tmp_path / "a.csv"
    inspected(path, rows)
    problems = inspect_files([path], text="text", label="label").problems
    assert "near_miss_labels" not in {p.code for p in problems} and "numeric_label" in {p.code for p in problems}


def test_rows_are_written_in_their_order_whatever_their_origins_look_like(tmp_path: Path) -> None:
    rows = [("one", "joy"), ("two", "sad", "three"), ("four", "joy"), ("five", "sad"), ("six", "")]
    path = tmp_path / "a:b.csv"
    inspected(path, rows)  # type: ignore[arg-type]
    inspection = inspect_files([path], text="text", label="label")
    inspection.write_rows(tmp_path / "out.jsonl")
    written = [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert written == [row[0] for row in rows] == [e.text for e in inspection.readings[0].rows]


def test_a_thousand_labels_are_whole_in_json_and_few_on_screen(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    inspected(path, [(f"a text {i}", f"label {i % 1000}") for i in range(2000)])
    document = inspect_files([path], text="text", label="label").as_dict()
    assert len(document["labels"]) == 1000
    parts = inspection_tables(document)
    assert "and 970 more labels" in parts
    assert max(part.row_count for part in parts if hasattr(part, "row_count")) == 30
