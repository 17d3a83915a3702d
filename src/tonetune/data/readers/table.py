"""A table as every reader yields it: columns, rows, and the line of the file on which each row begins."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonetune.data.readers.codebook import Codebook

Cells = Mapping[str, str | None]

LONGEST_NAME = 1000  # characters of a column's name, the names around it included
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # half an emoji that was cut: no encoding can write it


@dataclass(frozen=True)
class ReadOptions:
    """What a person says about a file instead of what is found in it; None means that it is found.

    `header`: whether the first row names the columns, which are "1", "2", … otherwise. `label_file`: a file with the
    label of each row, one a line. `codebook`: a file with names for the label codes.
    """

    encoding: str | None = None
    delimiter: str | None = None
    header: bool = True
    sheet: str | None = None
    label_file: Path | None = None
    codebook: Path | None = None


AS_FOUND = ReadOptions()


@dataclass(frozen=True)
class Table:
    """Rows of one file, every cell as text.

    `lines[i]` is where `rows[i]` begins in the file as an editor or a spreadsheet counts, from 1, the header included;
    in a file without lines it is the number of the row.
    A row holds the cells that the file gives it: ask with `get`, for one that it lacks is absent or None, and both mean
    blank. `overlong` holds the lines of rows with more cells than there are
    columns, most often a delimiter in a text that was not quoted: what such a row means is a guess, so nothing uses it.
    `header`: whether the first row gave the columns their names. `notes` has the lines where the file is not quite what
    it should be, by the code of the problem. `encoding`, `delimiter` and `sheet` are None where the format has none.
    `codebook` names the label codes of the rows.
    """

    path: Path
    format: str
    encoding: str | None
    delimiter: str | None
    columns: list[str]
    rows: Sequence[Cells]
    lines: list[int]
    overlong: frozenset[int] = frozenset()
    header: bool = False
    sheet: str | None = None
    notes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    codebook: Codebook | None = None

    def __len__(self) -> int:
        return len(self.rows)


def whole_characters(text: str) -> str:
    """The text with every half of a surrogate pair replaced by U+FFFD, so that it can be written."""
    return LONE_SURROGATE.sub("\ufffd", text)


def flat_cells(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """The cells of a row of nested fields, each named by its dotted path; objects in a list are counted from 1.

    Raises ValueError for a path of more than a thousand characters, which every field below it would repeat.
    """
    if len(prefix) > LONGEST_NAME:
        raise ValueError(f"the name of a field has more than {LONGEST_NAME:,} characters: {prefix[:20]}…")
    for key, item in value.items():
        if isinstance(item, dict):
            yield from flat_cells(item, f"{prefix}{key}.")
        elif isinstance(item, list) and item and all(isinstance(part, dict) for part in item):
            yield from flat_cells({str(i): part for i, part in enumerate(item, start=1)}, f"{prefix}{key}.")
        else:
            yield prefix + key, cell_text(item)


def cell_text(value: object) -> str | None:
    """A value as the text of a cell: null is None; numbers, true, false and lists are what JSON writes for them."""
    if value is None or isinstance(value, str):
        return value if value is None else whole_characters(value)
    if isinstance(value, (bool, int, float, list)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
