"""Preparation: every row ends in one split or among the dropped, and what cannot be used is an error."""

import csv
import hashlib
import json
import random
import statistics
from pathlib import Path
from typing import Any

import dataset
import numpy as np
import pytest

from tonetune.data.cleaning import clean_rows, cleaning_rules
from tonetune.data.duplicates import find_leaks, text_key
from tonetune.data.example import Example
from tonetune.data.near_duplicates import near_groups, similarity
from tonetune.data.prepare import Prepared, half_width_points, prepare
from tonetune.data.split_files import read_labelled
from tonetune.errors import DataError, GateError, UnknownLabelError

EMOTIONS = ("anger", "disgust", "fear", "joy", "sadness", "surprise")
HEALTHY = [(f"{mood} text {i}", label) for mood, label in (("fine", "joy"), ("low", "sad")) for i in range(40)]
MESSY = [
    *HEALTHY,
    ("Fine text 1", "joy"),
    ("fine text 2", "sad"),
    ("", "joy"),
    ("unlabelled", ""),
    ("x &amp; y", "joy"),
]


def saved(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("text", "label")) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def prepared(*train: Path, **options: Any) -> Prepared:
    rng = np.random.default_rng(options.pop("seed", 0))
    names = dict.fromkeys(("text", "label", "task"), "auto")
    standard = {**names, "labels": None, "rename": {}, "group": None, "allow_leaks": False}
    return prepare(train, rng=rng, **{**standard, **options})


def origins(result: Prepared) -> list[str]:
    kept = [e.origin for part in result.splits.values() for e in part]
    return sorted(kept + [row.example.origin for row in result.dropped])


def test_every_row_is_in_one_split_or_dropped(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", [*MESSY, ("one", "two", "three")])
    result = prepared(path)
    assert origins(result) == sorted(f"a.csv:{line}" for line in range(2, len(MESSY) + 3))
    assert result.counts()["dropped"] == {
        "overlong": 1,
        "empty_text": 1,
        "missing_label": 1,
        "duplicate": 1,
        "contradiction": 2,
    }
    keys = [text_key(e.text) for part in result.splits.values() for e in part]
    assert len(set(keys)) == len(keys)


def test_row_order_changes_neither_labels_nor_splits(tmp_path: Path) -> None:
    first = prepared(saved(tmp_path / "a.csv", HEALTHY))
    second = prepared(saved(tmp_path / "a.csv", random.Random(3).sample(HEALTHY, len(HEALTHY))))
    assert first.label_set == second.label_set
    for name, part in first.splits.items():
        assert [e.text for e in part] == [e.text for e in second.splits[name]]


def test_files_written_hold_what_was_prepared(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", MESSY)
    result = prepared(path)
    result.write(tmp_path / "out")
    lines = {
        name: (tmp_path / "out" / "splits" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        for name in ("train", "validation", "test")
    }
    for name, part in result.splits.items():
        assert [json.loads(line) for line in lines[name]] == [
            {"text": e.text, "label": e.label, "origin": e.origin} for e in part
        ]
    assert len((tmp_path / "out" / "dropped.jsonl").read_text(encoding="utf-8").splitlines()) == len(result.dropped)
    assert_rows_can_be_restored(tmp_path / "out", MESSY)
    document = json.loads((tmp_path / "out" / "data.json").read_text(encoding="utf-8"))
    assert document["files"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    rows = sum(split["rows"] for split in document["splits"].values()) + sum(document["dropped"].values())
    assert rows == document["files"][0]["rows"] == len(MESSY)
    assert all(sum(s["labels"].values()) == s["rows"] for s in document["splits"].values())
    assert json.loads((tmp_path / "out" / "labels.json").read_text(encoding="utf-8"))["names"] == ["joy", "sad"]


def test_a_label_renamed_to_nothing_leaves_its_rows_out(tmp_path: Path) -> None:
    result = prepared(saved(tmp_path / "a.csv", [*HEALTHY, ("one", "nan"), ("two", "nan")]), rename={"nan": ""})
    assert result.label_set.names == ("joy", "sad") and result.counts()["dropped"] == {"missing_label": 2}


def test_numbers_that_measure_are_no_labels(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", [(f"text {i}", str(i % 30)) for i in range(300)])
    with pytest.raises(DataError, match="30 different numbers from 0 to 29, such as ages") as error:
        prepared(path, text="text", label="label")
    assert error.value.where == "data.label"
    assert len(prepared(path, text="text", label="label", task="single-label").label_set) == 30
    assert len(prepared(path, text="text", label="label", labels=[str(i) for i in range(30)]).label_set) == 30


def test_few_rows_come_with_the_width_of_what_they_can_tell(tmp_path: Path) -> None:
    rows = [(f"{label} {'and so on ' * (i % 7)}{i}", label) for i in range(450) for label in ("joy", "sad")]
    few, many = (prepared(saved(tmp_path / "a.csv", rows[:n])) for n in (200, 900))
    assert [len(few.splits[name]) for name in ("validation", "test")] == [30, 30]
    assert len(few.warnings) == 2 and all("30" in warning and "±18 points" in warning for warning in few.warnings)
    assert few.data_document()["warnings"] == few.warnings
    assert many.warnings == []


@pytest.mark.parametrize("n", [30, 97, 2000])
def test_the_width_is_that_of_the_normal_interval(n: int) -> None:
    mean, error = 0.5, np.std([0.0, 1.0]) / n**0.5  # of n answers, half of them right
    assert half_width_points(n) == pytest.approx(100 * (statistics.NormalDist(mean, error).inv_cdf(0.975) - mean), 1e-4)


def assert_rows_can_be_restored(out: Path, rows: list[tuple[str, ...]]) -> None:
    """Splits, changed rows and dropped rows together give back every text as it was read."""
    texts: dict[str, str] = {}
    for name in ("splits/train", "splits/validation", "splits/test", "dropped", "changed"):
        lines = (out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        texts |= {row["origin"]: row["text"] for row in map(json.loads, lines)}
    assert texts == {f"a.csv:{line}": row[0] for line, row in enumerate(rows, start=2)}


def test_every_change_is_counted_by_rule_and_can_be_undone(tmp_path: Path) -> None:
    rows = [*HEALTHY, ("see www.a.b  &amp; @me", "joy "), ("SEE www.a.b & @me", "joy"), ("cafe\u0301 @you", "sad")]
    result = prepared(saved(tmp_path / "a.csv", rows), rules=cleaning_rules(urls="remove", mentions="placeholder"))
    result.write(tmp_path / "out")
    document = json.loads((tmp_path / "out" / "data.json").read_text(encoding="utf-8"))
    assert document["changed"] == {
        "markup": 1, "urls_remove": 2, "mentions_placeholder": 3, "whitespace": 2, "label": 1, "unicode": 1
    }  # fmt: skip
    assert document["cleaning"] == list(result.cleaning) and document["dropped"] == {"duplicate": 1}
    texts = {e.text for part in result.splits.values() for e in part}
    assert {"see & @user", "café @user"} <= texts
    assert_rows_can_be_restored(tmp_path / "out", rows)


def test_given_splits_are_used_as_they_are(tmp_path: Path) -> None:
    train = saved(tmp_path / "train.csv", HEALTHY)
    test = saved(tmp_path / "test.csv", [("new one", "joy"), ("new one", "joy"), ("new two", "sad")])
    result = prepared(train, test=[test])
    assert {name: len(part) for name, part in result.splits.items()} == {"train": 68, "validation": 12, "test": 3}
    both = prepared(train, test=[test], validation=[saved(tmp_path / "val.csv", [("val", "sad")])])
    assert {name: len(part) for name, part in both.splits.items()} == {"train": 80, "validation": 1, "test": 3}


def test_a_leak_is_refused_unless_allowed(tmp_path: Path) -> None:
    train = saved(tmp_path / "train.csv", HEALTHY)
    test = saved(tmp_path / "test.csv", [("FINE text 7", "joy"), ("new", "sad")])
    with pytest.raises(GateError, match=r"train.csv:9 = test.csv:2") as error:
        prepared(train, test=[test])
    assert error.value.exit_code == 7
    assert prepared(train, test=[test], allow_leaks=True).counts()["leaks"] == {"exact": 1, "near": 0}


def test_groups_stay_on_one_side(tmp_path: Path) -> None:
    rows = [(text, label, f"author {i % 20}") for i, (text, label) in enumerate(HEALTHY)]
    result = prepared(saved(tmp_path / "a.csv", rows, ("text", "label", "author")), group="author")
    author = {text: name for text, _, name in rows}
    sides = [{author[e.text] for e in part} for part in result.splits.values()]
    assert sum(map(len, sides)) == 20


def test_an_unknown_label_in_a_validation_file_names_its_row(tmp_path: Path) -> None:
    train = saved(tmp_path / "train.csv", HEALTHY)
    validation = saved(tmp_path / "val.csv", [("new", "joy"), ("newer", "joyful")])
    with pytest.raises(UnknownLabelError, match="joyful") as error:
        prepared(train, validation=[validation])
    assert error.value.where == "val.csv:3"
    assert prepared(train, validation=[validation], rename={"joyful": "joy"}).splits["validation"][1].label == "joy"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [("", "joy"), ("text", "")],
            {"text": "text", "label": "label"},
            "no usable row .*empty_text 1, missing_label 1",
        ),
        ([("same", "joy"), ("same", "sad")], {"text": "text"}, "no usable row .*contradiction 2"),
        (HEALTHY[:40], {}, "at least two classes; found one class, 'joy'"),
        ([*HEALTHY, ("a", "awe"), ("b", "awe")], {}, "class 'awe' has 2"),
        (HEALTHY, {"text": "txt"}, "no column 'txt'; found: text, label"),
        (HEALTHY, {"labels": ["joy", "sad", "fear"]}, "no training row has the label 'fear'"),
        (HEALTHY, {"labels": ["joy"]}, "'sad' is not one of joy"),
        (HEALTHY, {"validation": ["nowhere.csv"]}, "no such file"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    tmp_path: Path, rows: list[tuple[str, ...]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        prepared(saved(tmp_path / "a.csv", rows), **options)


NEAR = "the waiter brought the wrong soup twice and then forgot the bill for half an hour, no. "


def test_near_duplicates_stay_on_one_side_of_splits_made_here(tmp_path: Path) -> None:
    rows = [*HEALTHY, *((f"{NEAR}{i}", "sad") for i in range(12))]
    result = prepared(saved(tmp_path / "a.csv", rows))
    sides = [name for name, part in result.splits.items() for e in part if e.text.startswith(NEAR.strip())]
    assert len(sides) == 12 and len(set(sides)) == 1
    document = result.data_document()
    assert {"texts": len(result.near), "groups": len(set(result.near.values()))} == document["near_duplicates"]
    assert len([text for text in result.near if text.startswith(NEAR.strip())]) == 12
    assert document["leaks"] == {"exact": 0, "near": 0} and document["dropped"] == {}


def test_a_near_leak_between_given_splits_is_refused_unless_allowed(tmp_path: Path) -> None:
    train = saved(tmp_path / "train.csv", [*HEALTHY, (f"{NEAR}1", "sad")])
    test = saved(tmp_path / "test.csv", [(f"{NEAR}2", "sad"), ("new", "joy"), ("low text 3", "sad")])
    with pytest.raises(
        GateError, match=r"1 texts are in.*1 more have a near.*:45 = test.csv:4; train.csv:82 ≈ test.csv:2"
    ):
        prepared(train, test=[test])
    result = prepared(train, test=[test], allow_leaks=True)
    assert result.counts()["leaks"] == {"exact": 1, "near": 1} and len(result.splits["test"]) == 3


def test_real_splits_leak_as_their_readme_says(shared_data: Path) -> None:
    folder = shared_data / "zh_ewect_usual"
    given = {name: clean_rows(read_labelled([folder / name], text="auto", label="auto"), rename={}).examples
             for name in ("dev.csv", "test.csv")}  # fmt: skip
    near = near_groups(list({text_key(e.text): None for part in given.values() for e in part}))
    exact, almost = find_leaks(given, near)
    assert len(exact) == 18 and len(almost) >= 1
    assert all(text_key(a.text) == text_key(b.text) for a, b in exact)
    assert all(text_key(a.text) != text_key(b.text) and similarity(a.text, b.text) > 0.6 for a, b in almost)
    with pytest.raises(GateError, match="20 texts are in more than one split"):
        prepared(folder / "train.csv", validation=[folder / "dev.csv"], test=[folder / "test.csv"])


def test_limited_takes_the_first_by_hash(tmp_path: Path) -> None:
    result = prepared(saved(tmp_path / "a.csv", HEALTHY))
    limited = result.limited(train=10)
    expected = sorted(result.splits["train"], key=lambda e: hashlib.sha256(e.text.encode()).hexdigest())[:10]
    assert limited.splits["train"] == expected
    assert len(limited.splits["test"]) == len(result.splits["test"])
    assert limited.counts()["dropped"] == {"limit": len(result.splits["train"]) - 10}
    assert origins(limited) == origins(result)


COMBINED = [(f"text {i}", ["joy", "joy,sad", "sad", "sad,joy"][i % 4]) for i in range(40)]


def test_a_task_of_one_label_a_row_overrules_what_cells_look_like(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", COMBINED)
    assert prepared(path).label_set.names == ("joy", "sad")
    result = prepared(path, task="single-label")
    assert not result.multi_label
    assert result.label_set.names == ("joy", "joy,sad", "sad", "sad,joy")
    labels = dict(COMBINED)
    assert all(e.label == labels[e.text] for part in result.splits.values() for e in part)


@pytest.mark.parametrize(
    ("rows", "task", "message"),
    [
        (HEALTHY[:40], "binary", "two classes, found 1: joy"),
        (COMBINED, "binary", "two classes, found 4: joy, joy,sad, sad, sad,joy"),
    ],
)
def test_a_task_that_the_rows_do_not_fit_is_an_error(
    tmp_path: Path, rows: list[tuple[str, ...]], task: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        prepared(saved(tmp_path / "a.csv", rows), task=task, text="text", label="label")
    assert error.value.where == "data.task"
    assert prepared(saved(tmp_path / "b.csv", HEALTHY), task="binary").label_set.names == ("joy", "sad")


def test_columns_of_truths_stay_multi_label_whatever_the_task(shared_data: Path) -> None:
    with pytest.raises(DataError, match=r"anger, disgust, fear.*multi-label\?") as error:
        prepared(shared_data / "zh_brighter_chn" / "train.csv", task="single-label")
    assert error.value.where and error.value.where.startswith("train.csv:")
    assert "data.task: multi-label" in str(error.value.hint)


def test_multi_label_rows_are_cleaned_split_and_written(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "zh_brighter_chn" / "train.csv"
    result = prepared(source)
    assert result.multi_label and result.label_set.names == EMOTIONS
    assert len(origins(result)) == len(set(origins(result))) == 2642
    result.write(tmp_path)
    with source.open(encoding="utf-8", newline="") as file:
        truth = {row["id"]: {name for name in EMOTIONS if row[name] == "1"} for row in csv.DictReader(file)}
    by_line = dict(enumerate(truth.values(), start=2))
    for name, part in result.splits.items():
        rows = [json.loads(line) for line in (tmp_path / f"splits/{name}.jsonl").read_text("utf-8").splitlines()]
        assert [Example.from_row(row) for row in rows] == part
        assert all(set(row["labels"]) == by_line[int(row["origin"].split(":")[1])] for row in rows)
        counts = json.loads((tmp_path / "data.json").read_text("utf-8"))["splits"][name]["labels"]
        assert counts == {label: sum(label in row["labels"] for row in rows) for label in EMOTIONS}
    assert any(not e.labels for e in result.splits["train"])


def test_a_row_that_says_nothing_is_no_row_without_labels(tmp_path: Path) -> None:
    cells = [("1", "0", "1"), ("0", "0", "0"), ("", "", ""), ("0", "1", "0")]
    rows = [(f"text {i}", *cells[i % 4]) for i in range(40)]
    result = prepared(saved(tmp_path / "a.csv", rows, ("text", "joy", "sad", "awe")))
    assert result.counts()["dropped"] == {"missing_label": 10}
    kept = {e.text: e.labels for part in result.splits.values() for e in part}
    assert kept["text 0"] == ("joy", "awe") and kept["text 1"] == () and "text 2" not in kept


def test_the_splits_of_a_dataset_are_used_as_they_are(tmp_path: Path) -> None:
    parts = {"train": HEALTHY, "valid": [("new one", "joy"), ("new two", "sad")]}
    dataset.write_splits(
        tmp_path / "d", {k: {"text": [t for t, _ in v], "label": [c for _, c in v]} for k, v in parts.items()}
    )
    result = prepared(tmp_path / "d")
    assert [e.text for e in result.splits["validation"]] == ["new one", "new two"]
    assert len(result.splits["train"]) + len(result.splits["test"]) == len(HEALTHY)
    dataset.write_splits(
        tmp_path / "e", {"train": {"text": ["a"], "label": ["b"]}, "extra": {"text": ["a"], "label": ["b"]}}
    )
    with pytest.raises(DataError, match="'extra'"):
        prepared(tmp_path / "e")


TURNS = [
    (f"{i} {mood} " * 9, "really?\nyes", f"so {label}", label)  # other numbers often enough to be no near duplicates
    for i in range(20)
    for mood, label in (("a", "joy"), ("b", "sad"))
]


def test_several_text_columns_are_turns_of_one_text(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.csv", TURNS, ("one", "two", "three", "label"))
    result = prepared(path, text=["one", "two", "three"])
    assert result.num_turns == 3
    assert {e.text for part in result.splits.values() for e in part} == {
        f"{a.strip()}\nreally? yes\n{c}" for a, _, c, _ in TURNS
    }
    result.write(tmp_path / "out")
    again = prepared(tmp_path / "out/splits/train.jsonl", text=["turn1", "turn2", "turn3"])
    assert {e.text for part in again.splits.values() for e in part} == {e.text for e in result.splits["train"]}
