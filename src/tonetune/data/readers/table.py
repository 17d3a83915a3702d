"""A table as every reader yields it: columns, rows, and the line of the file on which each row begins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Cells = Mapping[str, str | None]


@dataclass(frozen=True)
class Table:
    """Rows of one file, every cell as text.

    `lines[i]` is where `rows[i]` begins in the file as an editor counts: from 1, the header included.
    A row holds the cells that the file gives it: ask with `get`, for one that it lacks is absent or None, and both mean
    blank. `overlong` holds the lines of rows with more cells than there are
    columns, most often a delimiter in a text that was not quoted: what such a row means is a guess, so nothing uses it.
    """

    path: Path
    format: str
    encoding: str
    delimiter: str | None
    columns: list[str]
    rows: list[Cells]
    lines: list[int]
    overlong: frozenset[int] = field(default_factory=frozenset)

    def __len__(self) -> int:
        return len(self.rows)
