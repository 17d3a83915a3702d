"""CSV and its kin: cells by comma, semicolon, tab or bar, quoted cells with line breaks, and the line of every row."""

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.data.readers.encodings import Decoded
from tonetune.data.readers.files import require_short_lines, split_lines
from tonetune.data.readers.table import Cells, ReadOptions, Table
from tonetune.errors import DataError, UsageError

DELIMITERS = (",", "\t", ";", "|", "^", "\x01")
DELIMITER_NAMES = {
    **{"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "pipe": "|"},
    **{"space": " ", "colon": ":", "none": ""},
}
OTHER_DIALECTS: tuple[dict[str, Any], ...] = ({"doublequote": False, "escapechar": "\\"}, {"quoting": csv.QUOTE_NONE})
MOST_COLUMNS = 10_000
SNIFF_CHARACTERS = 1 << 16
SNIFF_RECORDS = 200


@dataclass(frozen=True)
class Record:
    """Cells of one row and the line on which it begins."""

    line: int
    cells: list[str]


def read_delimited(decoded: Decoded, *, path: Path, format: str, options: ReadOptions) -> Table:
    """A table from delimited text.

    Quotes follow RFC 4180, with ' for " where the first line is quoted so. A file that cannot be read like that, but
    whose rows all have the same number of cells when \\ escapes a quote, or when quotes are plain characters, is read
    so. Blank lines are no rows.
    Raises DataError for a file without rows and for broken quotes, UsageError for a delimiter that is not one
    character.
    """
    text = decoded.text
    require_short_lines(text, path)
    delimiter = (
        sniff_delimiter(text, format=format) if options.delimiter is None else delimiter_named(options.delimiter)
    )
    records = _records(text, delimiter, path)
    if not records:
        raise DataError("the file is empty", where=str(path))
    width = len(records[0].cells) if options.header else max(len(record.cells) for record in records)
    if width > MOST_COLUMNS:
        hint = "another --delimiter, or no line ends?"
        raise DataError(f"the first row has {width:,} cells, the most is {MOST_COLUMNS:,}", where=str(path), hint=hint)
    columns = column_names(records.pop(0).cells) if options.header else [str(i) for i in range(1, width + 1)]
    if not records:
        hint = "add rows, or say --no-header if that line is one"
        raise DataError("the file has a header and no rows", where=str(path), hint=hint)
    return Table(
        path=path,
        format=format,
        encoding=decoded.encoding,
        delimiter=delimiter,
        columns=columns,
        header=options.header,
        rows=[_row(columns, record.cells) for record in records],
        lines=[record.line for record in records],
        overlong=frozenset(record.line for record in records if any(record.cells[width:])),
        notes={**decoded.notes}
        | ({"other_delimiter": others} if (others := _otherwise_divided(records, width)) else {}),
    )


def _otherwise_divided(records: list[Record], width: int) -> list[int]:
    """Lines of one cell where the first row has several, and where another delimiter makes as many."""
    lone = (record for record in records if len(record.cells) == 1 < width)
    return [r.line for r in lone if any(r.cells[0].count(mark) == width - 1 for mark in DELIMITERS)]


def _row(columns: list[str], cells: list[str]) -> Cells:
    """The cells that a row has: ten thousand names above short rows cost no more than the file."""
    return dict(zip(columns, cells, strict=False))


def column_names(cells: list[str]) -> list[str]:
    """Names from a header: trimmed; a blank one becomes its position from 1, a repeated one gets ".2", ".3", …"""
    names: dict[str, None] = {}
    copies: dict[str, Iterator[int]] = {}
    for position, cell in enumerate(cells, start=1):
        name = stem = cell.strip() or str(position)
        while name in names:
            name = f"{stem}.{next(copies.setdefault(stem, itertools.count(2)))}"
        names[name] = None
    return list(names)


def delimiter_named(delimiter: str) -> str:
    """The character that a person means, such as a tab by "tab"; "" by "none", where a line is one cell.

    Raises UsageError for what is not one character.
    """
    character = DELIMITER_NAMES.get(delimiter.lower(), delimiter)
    if len(character) > 1 or character in ('"', "\r", "\n"):
        raise UsageError(
            f"the delimiter {delimiter!r} is not one character",
            where="--delimiter",
            hint="for example , or ; or tab, or none where a line is one cell",
        )
    return character


def sniff_delimiter(text: str, *, format: str) -> str:
    """The delimiter under which most of the first records have as many cells as the first one, at least two.

    A tie goes to the one that gives more cells. With no delimiter at all the file has one column.
    """
    usual = "\t" if format == "tsv" else ","
    sample = text[:SNIFF_CHARACTERS]
    cut = len(sample) < len(text)
    scores: dict[str, tuple[float, int, bool]] = {}
    for delimiter in DELIMITERS:
        with _fields_up_to(len(sample)):
            reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            records = [cells for cells in itertools.islice(reader, SNIFF_RECORDS) if cells]
        if cut and len(records) > 1:
            records.pop()  # it may end in the middle
        if records and (width := len(records[0])) > 1:
            share = Counter(map(len, records))[width] / len(records)
            scores[delimiter] = (share, width, delimiter == usual)
    return max(scores, key=scores.__getitem__, default=usual)


def _records(text: str, delimiter: str, path: Path) -> list[Record]:
    if not delimiter:
        lines = enumerate(split_lines(text), start=1)
        return [Record(number, [line]) for number, line in lines if line.strip()]
    single = re.match(rf"'[^'\n]*'({re.escape(delimiter)}'[^'\n]*')*\r?\n", text)
    try:
        return list(_parse(text, delimiter, quotechar="'" if single else '"'))
    except _BrokenQuotes as broken:
        for dialect in OTHER_DIALECTS:
            with contextlib.suppress(_BrokenQuotes):
                records = list(_parse(text, delimiter, **dialect))
                if len(records[0].cells) > 1 and len({len(record.cells) for record in records}) == 1:
                    return records
        raise DataError(
            f"the quotes of the row that begins here are broken ({broken})",
            where=f"{path}:{broken.line}",
            hint='a cell that begins with " must end with one, and a " inside it is written ""',
        ) from broken


class _BrokenQuotes(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _parse(text: str, delimiter: str, **dialect: Any) -> Iterator[Record]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, **dialect)
    line = 1
    with _fields_up_to(len(text)):
        try:
            for cells in reader:
                if cells and not (len(cells) == 1 and not cells[0].strip()):
                    yield Record(line, cells)
                line = reader.line_num + 1
        except csv.Error as error:
            raise _BrokenQuotes(line, str(error)) from error


@contextlib.contextmanager
def _fields_up_to(characters: int) -> Iterator[None]:
    """Let the csv module accept a field as long as the whole text, then put its limit back."""
    before = csv.field_size_limit(max(characters + 1, csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)
