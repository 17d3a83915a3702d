"""Delimited files: cells, delimiters, header names, and the line on which each row begins."""

import csv
import io
import random
from pathlib import Path

import pytest

from tonetune.data.readers import ReadOptions, read_table
from tonetune.data.readers.delimited import column_names
from tonetune.errors import DataError, UsageError


def saved(tmp_path: Path, content: str, name: str = "a.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_what_csv_writes_comes_back_with_its_lines(tmp_path: Path, delimiter: str, ending: str) -> None:
    rng = random.Random(7)
    pieces = ["好", "a", " ", ",", ";", "\t", "|", '"', "\n", "😀", "x y"]
    rows = [["".join(rng.choices(pieces, k=rng.randint(1, 12))) + ".", rng.choice("pn")] for _ in range(200)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=ending)
    writer.writerow(["text", "label"])
    lines = []
    for row in rows:
        lines.append(out.getvalue().count("\n") + 1)
        writer.writerow(row)
    table = read_table(saved(tmp_path, out.getvalue()), ReadOptions(delimiter=delimiter))
    assert [[row["text"], row["label"]] for row in table.rows] == rows
    assert table.lines == lines


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("text;label\nnice, really, nice;pos\nbad, bad;neg\n", ";"),
        ("text\tlabel\nnice; really\tpos\nbad, bad\tneg\n", "\t"),
        ("text|label\na,b|pos\nc;d|neg\n", "|"),
        ('text,label\n"a;b;c",pos\n"d;e;f",neg\n', ","),
        ("text\nonly one column, with commas\n", ","),
    ],
)
def test_delimiter_is_found(tmp_path: Path, content: str, delimiter: str) -> None:
    table = read_table(saved(tmp_path, content))
    assert table.delimiter == delimiter
    assert "text" in table.columns


def test_delimiter_can_be_named(tmp_path: Path) -> None:
    path = saved(tmp_path, "text\tlabel\na,b\tpos\n")
    assert read_table(path, ReadOptions(delimiter="tab")).rows == read_table(path, ReadOptions(delimiter="\t")).rows
    with pytest.raises(UsageError, match="one character"):
        read_table(path, ReadOptions(delimiter="::"))


def test_lines_count_blank_lines_and_line_breaks_in_cells(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, 'text,label\n\n"one\ntwo\n\nfour",a\n   \nlast,b'))
    assert table.lines == [3, 8]
    assert table.rows[0]["text"] == "one\ntwo\n\nfour"


def test_without_header_columns_are_numbers(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, "good,1\nbad,0,extra\n"), ReadOptions(header=False))
    assert table.columns == ["1", "2", "3"]
    assert table.lines == [1, 2]
    assert table.rows[0] == {"1": "good", "2": "1"}


def test_a_row_with_too_many_cells_is_marked_and_one_with_too_few_has_none(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, "text,label\nnice, really,pos\nbad\nfine,pos,\n"))
    assert table.overlong == {2}
    assert table.rows[1] == {"text": "bad"}


def test_quotes_that_are_plain_characters(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, 'text\tlabel\n"Nice" he said\tpos\n"never closed\tneg\n', "a.tsv"))
    assert [row["text"] for row in table.rows] == ['"Nice" he said', '"never closed']


def test_a_quote_that_never_closes_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = saved(tmp_path, 'text,label\n"a,b",pos\n"never closed,neg\nrest, of,file\n')
    with pytest.raises(DataError) as error:
        read_table(path)
    assert error.value.where == f"{path}:3"


def test_huge_cells_and_nul_bytes(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    table = read_table(saved(tmp_path, f"text,label\n{'长' * 200_000},po\0s\n"))
    assert len(table.rows[0]["text"] or "") == 200_000
    assert table.rows[0]["label"] == "pos"
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_empty_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="empty"):
        read_table(saved(tmp_path, content))


def test_a_header_alone_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="header and no rows"):
        read_table(saved(tmp_path, "text,label\n"))


def test_header_names_are_distinct() -> None:
    assert column_names([" text ", "", "text", "text", "text.2"]) == ["text", "2", "text.2", "text.3", "text.2.2"]


@pytest.mark.parametrize(
    "content",
    [
        'text,label\n"a ""b"", c",pos\nd,neg\n',
        'text,label\n"a \\"b\\", c",pos\nd,neg\n',
        "'text','label'\n'a \"b\", c','pos'\n'd','neg'\n",
    ],
)
def test_quotes_are_read_as_they_were_written(tmp_path: Path, content: str) -> None:
    table = read_table(saved(tmp_path, content))
    assert table.rows == [{"text": 'a "b", c', "label": "pos"}, {"text": "d", "label": "neg"}]


def test_lines_that_another_delimiter_divides_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na fine day,joy\nnot so;sad\nwell\tjoy\nno label\n", encoding="utf-8")
    table = read_table(path)
    assert list(table.notes["other_delimiter"]) == [3, 4]
    assert [row.get("label") for row in table.rows] == ["joy", None, None, None]


def test_mixed_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\r\na b,x\nc d,y\r\re f,x\r\n")
    table = read_table(path)
    assert [row["text"] for row in table.rows] == ["a b", "c d", "e f"]
    assert table.lines == [2, 3, 5]


def test_no_delimiter_makes_a_line_one_cell(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path, 'text\n"Well", she said, bad\n\nfine; yes\n'), ReadOptions(delimiter="none"))
    assert [row["text"] for row in table.rows] == ['"Well", she said, bad', "fine; yes"]
    assert table.lines == [2, 4]


def test_a_first_row_of_too_many_cells_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="20,001 cells"):
        read_table(saved(tmp_path, "a," * 20_000 + "\n1,2\n"))
