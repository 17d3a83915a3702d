"""JSON rows: nested fields, lines, and broken rows."""

import json
from pathlib import Path

import pytest

from tonetune.data.readers import read_table
from tonetune.errors import DataError

ROWS = [{"data": {"text": "好\n的"}, "label": 1}, {"data": {"text": "b"}, "label": None, "tags": ["x", "y"]}]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.ndjson"])
@pytest.mark.parametrize("as_array", [False, True])
def test_lines_and_arrays_hold_the_same_rows(tmp_path: Path, name: str, as_array: bool) -> None:
    path = tmp_path / name
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    path.write_text(json.dumps(ROWS) if as_array else lines, encoding="utf-8")
    table = read_table(path)
    assert table.columns == ["data.text", "label", "tags"]
    assert table.rows == [
        {"data.text": "好\n的", "label": "1", "tags": None},
        {"data.text": "b", "label": None, "tags": '["x", "y"]'},
    ]


def test_lines_of_an_indented_array(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS, indent=2), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert read_table(path).lines == [i for i, line in enumerate(lines, start=1) if line == "  {"]


def test_line_separators_inside_strings_do_not_end_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\u2028b"}\n\n{"text": "c"}', encoding="utf-8")
    table = read_table(path)
    assert table.lines == [1, 3]
    assert table.rows[0]["text"] == "a\u2028b"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"text": "a"}\n{"text": \n', 2),
        ('{"text": "a"}\n["text"]\n', 2),
        ('[{"text": "a"},\n{"text": }]', 2),
        ('[{"text": "a"}\n{"text": "b"}]', 2),
        ('[{"text": "a"},\n', 2),
        ('[{"text": "a"}]\nmore', 1),
        ('[{"text": "a"},\n\n3]', 3),
    ],
)
def test_broken_rows_name_their_line(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_table(path)
    assert error.value.where == f"{path}:{line}"


@pytest.mark.parametrize("content", ["", "[]", "\n"])
def test_no_rows(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="no rows"):
        read_table(path)


def test_half_an_emoji_can_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "cut \\ud83d", "whole": "\\ud83d\\ude00"}', encoding="utf-8")
    (row,) = read_table(path).rows
    assert row == {"text": "cut \ufffd", "whole": "😀"}
    assert (row["text"] or "").encode()
