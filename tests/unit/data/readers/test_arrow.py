"""Parquet and datasets on disk: names for categories and classes, nested fields, damage."""

import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import dataset
import polars
import pytest

from tonetune.data.columns import find_columns
from tonetune.data.inspect import inspect_files
from tonetune.data.readers import read_table
from tonetune.errors import DataError, UncertainError

COLUMNS: dict[str, list[Any]] = {
    "text": ["a b", "c\nd", "é😀"],
    "label": [1, 0, -1],
    "tags": [[0, 2], [], [1]],
    "meta": [{"id": 1, "mood": 0}, {"id": 2, "mood": 1}, {"id": 3, "mood": 1}],
    "score": [1.0, 0.5, None],
}
FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"names": ["anger", "joy"], "_type": "ClassLabel"},
    "tags": {"feature": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "_type": "List"},
    "meta": {"id": {"dtype": "int64", "_type": "Value"}, "mood": {"names": ["low", "high"], "_type": "ClassLabel"}},
}
NAMED = [
    {"text": "a b", "label": "joy", "tags": '["a", "c"]', "meta.id": "1", "meta.mood": "low", "score": "1.0"},
    {"text": "c\nd", "label": "anger", "tags": "[]", "meta.id": "2", "meta.mood": "high", "score": "0.5"},
    {"text": "é😀", "label": None, "tags": '["b"]', "meta.id": "3", "meta.mood": "high", "score": None},
]


def parquet(path: Path, columns: dict[str, Any], **metadata: str) -> Path:
    polars.DataFrame(columns).write_parquet(path, metadata=metadata or None)
    return path


def test_class_labels_of_a_parquet_file_get_their_names(tmp_path: Path) -> None:
    described = json.dumps({"info": {"features": FEATURES}})
    table = read_table(parquet(tmp_path / "a.parquet", COLUMNS, huggingface=described))
    assert table.rows == NAMED
    assert table.lines == [1, 2, 3]
    assert find_columns(table, text="text", label="tags").task == "multi-label"


def test_categories_are_their_names_and_codes_stay_codes(tmp_path: Path) -> None:
    columns = {
        "text": ["a", "b", "c"],
        "mood": polars.Series(["joy", "anger", "joy"], dtype=polars.Categorical),
        "kind": polars.Series(["x", None, "y"], dtype=polars.Enum(["x", "y"])),
        "code": [3, 4, None],
        "sure": [True, False, None],
        "day": [date(2024, 5, 17)] * 3,
    }
    assert read_table(parquet(tmp_path / "a.parquet", columns)).rows == [
        {"text": "a", "mood": "joy", "kind": "x", "code": "3", "sure": "true", "day": "2024-05-17"},
        {"text": "b", "mood": "anger", "kind": None, "code": "4", "sure": "false", "day": "2024-05-17"},
        {"text": "c", "mood": "joy", "kind": "y", "code": None, "sure": None, "day": "2024-05-17"},
    ]


@pytest.mark.parametrize("num_files", [1, 2])
def test_a_dataset_saved_on_disk(tmp_path: Path, num_files: int) -> None:
    directory = dataset.write(tmp_path / "d", COLUMNS, features=FEATURES, num_files=num_files)
    table = read_table(directory)
    assert table.rows == NAMED
    assert (table.format, table.encoding) == ("dataset", None)


def test_a_dataset_of_several_splits_is_files_for_inspect_and_a_question_for_one(tmp_path: Path) -> None:
    parts = {"train": {"text": ["a b", "c d"], "label": ["p", "n"]}, "test": {"text": ["e f"], "label": ["p"]}}
    directory = dataset.write_splits(tmp_path / "d", parts)
    document = inspect_files([directory], text="auto", label="label").as_dict()
    assert [(Path(file["path"]).name, file["rows"]) for file in document["files"]] == [("train", 2), ("test", 1)]  # type: ignore[attr-defined]
    with pytest.raises(UncertainError, match="train, test") as error:
        read_table(directory)
    assert str(directory / "train") in str(error.value.hint)


def test_damage_is_an_error(tmp_path: Path) -> None:
    content = io.BytesIO()
    polars.DataFrame({"text": ["a"]}).write_parquet(content)
    (tmp_path / "a.parquet").write_bytes(content.getvalue()[:-9])
    directory = dataset.write(tmp_path / "d", {"text": ["a"]})
    arrow = next(directory.glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:40])
    described = dataset.write(tmp_path / "e", {"text": ["a"]})
    (described / "state.json").write_text('{"_data_files": [7]}')
    empty = parquet(tmp_path / "empty.parquet", {"text": []})
    for path in (tmp_path / "a.parquet", directory, described, empty):
        with pytest.raises(DataError) as error:
            read_table(path)
        assert str(path) in str(error.value.where)
    foreign = parquet(tmp_path / "b.parquet", {"text": ["a"]}, huggingface="[]")
    with pytest.raises(DataError, match="describes"):
        read_table(foreign)
