"""Excel workbooks: the sheet that holds a table, its header below titles, its end above footers."""

import bisect
import io
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any

from tonetune.data.readers.delimited import column_names
from tonetune.data.readers.files import Modest, require_modest
from tonetune.data.readers.table import ReadOptions, Table, cell_text
from tonetune.errors import DataError, UncertainError, listed

MOST_ROWS = 1 << 20  # of a sheet, by Excel's own limit
TITLE_ROWS = 50  # the header is looked for in so many rows
ERRORS = frozenset(("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!"))

MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z]+\d+:[A-Z]+\d+)[\"']")

Row = tuple[int, dict[int, str]]
"""Number of a row in its sheet, and its cells that are not blank by their column from 0."""


@dataclass(frozen=True)
class Sheet:
    """Rows that are not blank, in order, and the numbers of those with a cell from a merged one above."""

    rows: list[Row]
    merged: frozenset[int]


def read_sheet(data: bytes, *, path: Path, options: ReadOptions) -> Table:
    """A table from a workbook: of the sheet that is named (or given by its number), else of the only one with a table.

    Rows above the header and, set apart by a blank row, below the table are left out and noted as "outside_table".
    A whole number is written without its decimals, a formula is the value that was saved with it. A cell merged over
    several rows stands in each of them, noted as "merged_cells".
    Raises DataError for a file that is no workbook, one that unpacks to too much and one without rows, UncertainError
    where several sheets have a table.
    """
    _require_workbook(data, path)
    sheets = _sheets(data, path)
    sheet = _chosen(sheets, options.sheet, path)
    rows = sheets[sheet].rows
    if not rows:
        raise DataError("the sheet is empty", where=f"{path}, sheet {sheet}", hint=f"sheets: {listed(sheets)}")
    first, end = _span(rows, header=options.header)
    places = sorted({place for _, cells in rows[first:end] for place in cells})
    header = rows[first][1] if options.header else {}
    names = column_names([header.get(place, "") for place in places])
    body = rows[first + options.header : end]
    if not body:
        hint = "add rows, or say --no-header if that line is one"
        raise DataError("the sheet has a header and no rows", where=f"{path}, sheet {sheet}", hint=hint)
    notes = {
        "outside_table": [number for number, _ in (*rows[:first], *rows[end:])],
        "merged_cells": [number for number, _ in body if number in sheets[sheet].merged],
    }
    return Table(
        path=path,
        format="xlsx",
        encoding=None,
        delimiter=None,
        columns=names,
        header=options.header,
        rows=[
            {name: cells[place] for name, place in zip(names, places, strict=True) if place in cells}
            for _, cells in body
        ],
        lines=[number for number, _ in body],
        sheet=sheet,
        notes={code: lines for code, lines in notes.items() if lines},
    )


def _require_workbook(data: bytes, path: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            num_bytes = sum(entry.file_size for entry in archive.infolist())
    except Exception as error:  # zipfile raises of every kind for a damaged directory
        raise DataError(
            f"not an Excel workbook: {error}", where=str(path), hint="save it again as .xlsx, without a password"
        ) from error
    require_modest(num_bytes, len(data), path)


def _sheets(data: bytes, path: Path) -> dict[str, Sheet]:
    """Every visible sheet by its name."""
    import openpyxl

    modest = Modest(len(data), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and extensions that no cell's value depends on
        try:
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {
                    sheet.title: _with_merged_cells(
                        list(_rows(sheet, path, modest)), archive.read(sheet._worksheet_path), modest
                    )
                    for sheet in visible
                }
        except DataError:
            raise
        except Exception as error:  # openpyxl and the parsers below it raise of every kind for a damaged workbook
            what = f"the workbook is damaged: {type(error).__name__}: {error}"
            raise DataError(what, where=str(path), hint="open it in a spreadsheet and save it again") from error


def _rows(sheet: Any, path: Path, modest: Modest) -> Iterator[Row]:
    sheet.reset_dimensions()  # what a file says of its own size is often wrong
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        if number > MOST_ROWS:
            raise DataError(f"sheet {sheet.title} has more than {MOST_ROWS:,} rows", where=str(path))
        cells = {place: text for place, value in enumerate(values) if (text := _text(value)) is not None}
        if cells:
            modest.add(sum(map(len, cells.values())))  # many cells may show one text of the file
            yield number, cells


def _with_merged_cells(rows: list[Row], xml: bytes, modest: Modest) -> Sheet:
    """The rows, with the text of a cell that is merged over several rows in each that is not blank otherwise."""
    from openpyxl.utils import range_boundaries

    numbers, merged = [number for number, _ in rows], set[int]()
    begins = xml.find(b"mergeCells")
    for match in MERGED.findall(xml, begins) if begins >= 0 else ():
        left, top, _, bottom = range_boundaries(match.decode())
        begin, end = bisect.bisect_left(numbers, top), bisect.bisect_right(numbers, bottom)
        if begin < end and numbers[begin] == top and (text := rows[begin][1].get(left - 1)) is not None:
            for number, cells in rows[begin + 1 : end]:
                modest.add(1)
                if cells.setdefault(left - 1, text) is text:
                    modest.add(len(text))
                    merged.add(number)
    return Sheet(rows, frozenset(merged))


def _text(value: object) -> str | None:
    """A cell's value as text; None for a blank cell and for one that shows an error."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    text = cell_text(value)
    return text if text is not None and text.strip() and text not in ERRORS else None


def _chosen(sheets: dict[str, Sheet], named: str | None, path: Path) -> str:
    if named is not None:
        numbered = {str(number): name for number, name in enumerate(sheets, start=1)}
        if named not in sheets and named not in numbered:
            raise DataError(f"no sheet {named!r}; found: {listed(sheets)}", where=str(path), hint="--sheet NAME")
        return named if named in sheets else numbered[named]
    rows = {name: sheet.rows for name, sheet in sheets.items()}
    tables = [name for name, part in rows.items() if len(part) > 1 and any(len(cells) > 1 for _, cells in part)]
    filled = tables or [name for name, part in rows.items() if part] or list(sheets)
    if len(filled) == 1:
        return filled[0]
    raise UncertainError(
        f"which sheet is it? candidates: {listed(filled)}",
        candidates=[{"role": "sheet", "sheet": name, "rows": len(rows[name])} for name in filled],
        where=str(path),
        hint="name it with --sheet NAME",
    )


def _span(rows: Sequence[Row], *, header: bool) -> tuple[int, int]:
    """Index of the first row of the table, its header where it has one, and the index behind its last row.

    The table's rows fill the columns that are usually filled, and at least two where any row does. Its header has no
    numbers, and may leave out a first column that counts the rows, which is the index that a program added.
    """
    counts = Counter(place for _, cells in rows for place in cells)
    usual = {place for place, count in counts.items() if count >= len(rows) / 2} or {
        max(counts, key=counts.__getitem__)
    }
    fewest = min(2, max(len(cells) for _, cells in rows))

    def belongs(cells: dict[int, str]) -> bool:
        return len(cells) >= fewest and usual <= cells.keys()

    def begins(i: int) -> bool:
        _, cells = rows[i]
        if not header or belongs(cells):
            return belongs(cells) and not (header and any(map(_is_number, cells.values())))
        return len(cells) >= fewest - 1 and usual - cells.keys() == {0} and _counts_rows(rows[i + 1 :])

    enough = next(i for i, (_, cells) in enumerate(rows) if len(cells) >= fewest)
    first = next((i for i in range(min(TITLE_ROWS, len(rows))) if begins(i)), enough)
    end = len(rows)
    for i in range(len(rows) - 1, first, -1):
        if belongs(rows[i][1]):
            break
        if rows[i][0] > rows[i - 1][0] + 1:
            end = i
    return first, end


def _counts_rows(rows: Sequence[Row]) -> bool:
    return bool(rows) and all(cells.get(0, "0").isdigit() for _, cells in rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
