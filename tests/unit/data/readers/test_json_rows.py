"""JSON rows: nested fields, lines, and broken rows."""

import json
import sys
from pathlib import Path

import pytest

from tonetune.data.columns import find_columns
from tonetune.data.readers import read_table
from tonetune.data.rows import read_rows
from tonetune.errors import DataError, UncertainError

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
        {"data.text": "好\n的", "label": "1"},
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


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000, '{"a": ' * 800 + "1" + "}" * 800, "[" * 800 + "]" * 800])
@pytest.mark.parametrize("as_array", [False, True])
def test_json_that_is_too_much_names_its_line(tmp_path: Path, value: str, as_array: bool) -> None:
    path = tmp_path / "a.json"
    rows = ['{"text": "a"}', f'{{"text": "b", "label": {value}}}']
    path.write_text("[" + ",\n".join(rows) + "]" if as_array else "\n".join(rows), encoding="utf-8")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(700)
    try:
        with pytest.raises(DataError) as error:
            read_table(path)
    finally:
        sys.setrecursionlimit(limit)
    assert error.value.where == f"{path}:2"


def test_keys_that_each_row_has_for_itself_cost_no_more_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    lines = (json.dumps({"text": f"text {i}", "label": "pn"[i % 2], "votes": {f"u{i}": i}}) for i in range(3000))
    path.write_text("\n".join(lines), encoding="utf-8")
    table = read_table(path)
    assert len(table.columns) == 3002
    assert sum(map(len, table.rows)) == 9000
    columns = find_columns(table, text="auto", label="auto")
    assert (columns.text, columns.label) == (("text",), ("label",))
    with pytest.raises(DataError, match="and 2,993 more"):
        find_columns(table, text="body", label="auto")


def test_rows_may_lack_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "p", "by": "x"}\n{"label": "n"}\n{"text": "c"}', encoding="utf-8")
    table = read_table(path)
    reading = read_rows(table, find_columns(table, text="text", label="label"), name="a", group="by")
    assert [(e.text, e.labels) for e in reading.rows] == [("a", ("p",)), ("", ("n",)), ("c", ())]
    assert reading.groups == {"a:1": "x"}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(ending.join(['{"text": "a"}', "", '{"text": "b"}', ""]).encode())
    table = read_table(path)
    assert ([row["text"] for row in table.rows], table.lines) == (["a", "b"], [1, 3])


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("around", [{"data": ROWS}, {"version": 1, "tags": ["a", "{"], "page": {"n": 2, "rows": ROWS}}])
def test_rows_in_an_object_are_those_of_the_array(tmp_path: Path, indent: int | None, around: object) -> None:
    array, inside = tmp_path / "array.json", tmp_path / "object.json"
    array.write_text(json.dumps(ROWS), encoding="utf-8")
    inside.write_text(json.dumps(around, indent=indent), encoding="utf-8")
    table = read_table(inside)
    assert table.rows == read_table(array).rows and table.format == "json"
    lines = inside.read_text(encoding="utf-8").split("\n")
    assert all(lines[line - 1].lstrip().startswith("{") for line in table.lines) and len(table.lines) == 2


def test_several_lists_of_rows_are_a_question_and_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"train": ROWS, "test": ROWS[:1]}), encoding="utf-8")
    with pytest.raises(UncertainError) as error:
        read_table(path)
    assert [candidate["rows"] for candidate in error.value.candidates] == ["train", "test"]
    path.write_text(json.dumps({"text": {"0": "a"}, "label": {"0": "b"}}, indent=1), encoding="utf-8")
    with pytest.raises(DataError, match="no field of it is a list") as error:
        read_table(path)
    assert "records" in str(error.value.hint)
    path.write_text('{"text": "a", "label": "b"}', encoding="utf-8")
    assert read_table(path).rows == [{"text": "a", "label": "b"}]
    for broken in ('{\n"rows" [{"text": "a"}]}', '{\n"rows": [{"text": "a"}]', '{\n"rows": [{"text": "a"}] "more": 1}'):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(DataError, match="not JSON"):
            read_table(path)


def test_objects_in_a_list_are_counted_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    turns = [{"role": "user", "content": "hi"}, {"role": "bot", "content": {"text": "yes?"}}]
    rows = [{"turns": turns, "tags": ["x"], "mixed": [1, {"a": 2}], "none": []}, {"turns": turns[:1]}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first = {"turns.1.role": "user", "turns.1.content": "hi"}
    second = {"turns.2.role": "bot", "turns.2.content.text": "yes?"}
    lists = {"tags": '["x"]', "mixed": '[1, {"a": 2}]', "none": "[]"}
    assert read_table(path).rows == [first | second | lists, first]
