"""Rows as read: origins a person can look up, and no row lost."""

from pathlib import Path

import pytest

from tonetune.data.columns import find_columns
from tonetune.data.example import Example
from tonetune.data.readers import read_table
from tonetune.data.rows import file_names, read_rows
from tonetune.errors import DataError


def test_every_row_is_an_example_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label,author\n good ,pos,x\n,neg,\nfine\nbad,very,neg,y\n", encoding="utf-8")
    table = read_table(path)
    reading = read_rows(table, find_columns(table, text="text", label="label"), name="a.csv", group="author")
    assert reading.examples == [
        Example(" good ", ("pos",), "a.csv:2"),
        Example("", ("neg",), "a.csv:3"),
        Example("fine", (), "a.csv:4"),
    ]
    assert [(row.example.origin, row.reason) for row in reading.dropped] == [("a.csv:5", "overlong")]
    assert reading.unlabelled == {"a.csv:4"}
    assert reading.groups == {"a.csv:2": "x"}
    with pytest.raises(DataError, match="no column 'writer'"):
        read_rows(table, find_columns(table, text="text", label="label"), name="a.csv", group="writer")


def test_files_of_the_same_name_keep_their_paths() -> None:
    paths = [Path("x/train.csv"), Path("y/train.csv"), Path("x/test.csv")]
    assert list(file_names(paths).values()) == [str(paths[0]), str(paths[1]), "test.csv"]
