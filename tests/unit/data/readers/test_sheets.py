"""Workbooks: which sheet, where the table begins and ends, and cells as a person sees them."""

import io
import random
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tonetune.data.inspect import inspect_files
from tonetune.data.readers import ReadOptions, Table, read_table
from tonetune.data.readers.files import MODEST_BYTES
from tonetune.errors import DataError, UncertainError

Cells = list[list[Any]]
ROWS: Cells = [["id", "text", "label"], [1, "a fine day", "joy"], [2, "not so", "sad"], [3, "well", "joy"]]


def saved(path: Path, hidden: tuple[str, ...] = (), **sheets: Cells) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if name in hidden else "visible"
    book.save(path)
    return path


def read(tmp_path: Path, rows: Cells, **options: Any) -> Table:
    return read_table(saved(tmp_path / "a.xlsx", rows=rows), ReadOptions(**options))


def test_rows_with_their_numbers(tmp_path: Path) -> None:
    table = read(tmp_path, ROWS)
    assert (table.format, table.sheet, table.encoding, table.delimiter) == ("xlsx", "rows", None, None)
    assert table.columns == ["id", "text", "label"]
    assert [list(row.values()) for row in table.rows] == [[str(i), t, c] for i, t, c in ROWS[1:]]
    assert table.lines == [2, 3, 4]
    assert read_table(tmp_path / "a.xlsx", ReadOptions(header=False)).rows[0] == {"1": "id", "2": "text", "3": "label"}


@pytest.mark.parametrize("titles", [[], [["Reviews of 2025"]], [["Reviews"], [], [None, "by the team"], []]])
@pytest.mark.parametrize("footers", [[], [[], ["Total: 3"]], [[], [], ["Source:"], ["the shop"]]])
def test_titles_and_footers_are_left_out_and_noted(tmp_path: Path, titles: Cells, footers: Cells) -> None:
    table = read(tmp_path, [*titles, *ROWS, *footers])
    assert [row["text"] for row in table.rows] == ["a fine day", "not so", "well"]
    assert table.lines == [len(titles) + i for i in (2, 3, 4)]
    outside = [i for i, row in enumerate([*titles, *ROWS, *footers], start=1) if row and len([*filter(None, row)]) == 1]
    assert list(table.notes.get("outside_table", [])) == outside


def test_unlabelled_rows_at_the_end_are_rows(tmp_path: Path) -> None:
    table = read(tmp_path, [*ROWS, [4, "who knows", None], [None, "and this", None]])
    assert [row["text"] for row in table.rows][-2:] == ["who knows", "and this"]
    mostly = read(
        tmp_path, [["Survey"], [], ["text", "label"], *([f"text {i}", "joy" if i < 3 else None] for i in range(12))]
    )
    assert (mostly.columns, len(mostly)) == (["text", "label"], 12)


def test_a_cell_merged_over_rows_stands_in_each(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.xlsx",
        rows=[
            ["Survey"],
            ["text", "label", None],
            [None, "tone", "by"],
            *([f"text {i}", "joy", "ann"] for i in range(6)),
        ],
    )
    book = openpyxl.load_workbook(path)
    sheet = book["rows"]
    for cells in ("A1:C1", "A2:A3", "B4:B6", "B7:B8", "C4:C9", "E4:E9"):
        sheet.merge_cells(cells)
    sheet["B7"] = "sad"
    book.save(path)
    table = read_table(path)
    assert table.columns == ["text", "tone", "by"] and table.lines == [4, 5, 6, 7, 8, 9]
    assert [row["tone"] for row in table.rows] == ["joy", "joy", "joy", "sad", "sad", "joy"]
    assert {row["by"] for row in table.rows} == {"ann"}
    assert list(table.notes["merged_cells"]) == [5, 6, 7, 8, 9]
    assert "merged_cells" in [problem.code for problem in inspect_files([path], text="auto", label="tone").problems]


def test_the_index_of_a_program_needs_no_name(tmp_path: Path) -> None:
    table = read(tmp_path, [[None, "text", "label"], [0, "a", "joy"], [1, "b", "sad"]])
    assert table.columns == ["1", "text", "label"]
    assert len(table) == 2


def test_cells_are_what_a_person_sees(tmp_path: Path) -> None:
    values = [1, 2.0, 0.5, True, date(2024, 5, 17), datetime(2024, 5, 17, 8, 30), "=1+1", "#N/A", "  ", "1.0", "é😀\n"]
    sheet: Cells = [["text", "value"], *([f"row {i}", value] for i, value in enumerate(values))]
    shown = ["1", "2", "0.5", "true", "2024-05-17", "2024-05-17 08:30:00", None, None, None, "1.0", "é😀\n"]
    assert [row.get("value") for row in read(tmp_path, sheet).rows] == shown  # no program has computed the formula


def test_several_sheets_are_a_question(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", ("old",), about=[["made by hand"]], may=ROWS, june=ROWS[:3], old=ROWS)
    with pytest.raises(UncertainError, match="may, june"):
        read_table(path)
    document = inspect_files([path], text="auto", label="auto").as_dict()
    assert document["candidates"] == [
        {"role": "sheet", "sheet": "may", "rows": 4},
        {"role": "sheet", "sheet": "june", "rows": 3},
    ]
    for name in ("june", "3"):
        assert len(read_table(path, ReadOptions(sheet=name))) == 2
    with pytest.raises(DataError, match="found: about, may, june"):
        read_table(path, ReadOptions(sheet="July"))


def test_the_only_sheet_with_a_table_is_taken(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", about=[["made by hand"], ["in May"]], rows=ROWS, empty=[])
    assert read_table(path).sheet == "rows"
    with pytest.raises(DataError, match="sheet is empty"):
        read_table(path, ReadOptions(sheet="empty"))


def test_a_header_alone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows"):
        read(tmp_path, ROWS[:1])


def test_a_stray_cell_in_the_last_corner_costs_nothing(tmp_path: Path) -> None:
    book = openpyxl.load_workbook(saved(tmp_path / "a.xlsx", rows=ROWS))
    book["rows"].cell(row=1 << 20, column=1 << 14, value="x")
    book.save(tmp_path / "a.xlsx")
    table = read_table(tmp_path / "a.xlsx")
    assert (len(table), table.columns) == (3, ["id", "text", "label"])
    assert table.notes == {"outside_table": [1 << 20]}


def test_a_bomb_and_a_zip_archive_are_no_workbooks(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(2 * MODEST_BYTES))
    with pytest.raises(DataError, match="over 100 times"):
        read_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(DataError, match="damaged"):
        read_table(path)


@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_workbook_is_an_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = saved(tmp_path / "a.xlsx", rows=ROWS)
    content = bytearray(path.read_bytes())
    path.write_bytes(content[: rng.randrange(len(content))])
    with pytest.raises(DataError):
        read_table(path)
    source = zipfile.ZipFile(io.BytesIO(bytes(content)))
    with zipfile.ZipFile(path, "w") as archive:
        for name in source.namelist():
            part = source.read(name)
            archive.writestr(name, part[: len(part) // 2] if name == "xl/worksheets/sheet1.xml" else part)
    with pytest.raises(DataError, match="damaged"):
        read_table(path)
