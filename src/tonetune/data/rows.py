"""Rows of tables to examples, as they are written: the one place where a cell becomes a text or a label."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tonetune.data.columns import Columns, require_column
from tonetune.data.example import Example, joined_turns
from tonetune.data.readers import Cells, Codebook, Table


@dataclass(frozen=True)
class Dropped:
    """A row that is not used and why: overlong, empty_text, missing_label, duplicate, contradiction or limit."""

    example: Example
    reason: str

    def as_dict(self) -> dict[str, str | None]:
        """The row as `dropped.jsonl` holds it."""
        label = ", ".join(self.example.labels) or None
        return {"origin": self.example.origin, "text": self.example.text, "label": label, "reason": self.reason}


@dataclass(frozen=True)
class Reading:
    """The rows of one or several tables in order: all are in `rows`, and each is in `examples` or in `dropped`.

    A blank text is "" and a blank label gives no labels; origins of the latter are in `unlabelled`, because a row of
    multi-label data may have no label and yet say so. `groups` has the group of every origin that names one.
    """

    rows: list[Example] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    unlabelled: set[str] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)


def file_names(paths: Sequence[Path]) -> dict[Path, str]:
    """What origins call each file: its name, or the whole path where two files have the same name."""
    counts = Counter(path.name for path in set(paths))
    return {path: path.name if counts[path.name] == 1 else str(path) for path in paths}


def read_rows(table: Table, columns: Columns, *, name: str, group: str | None = None) -> Reading:
    """The rows of `table` with origins "name:line". `columns` has to be certain.

    Label codes get the names of the table's codebook. A text of several columns is one turn a line.
    Raises DataError where `table` lacks one of the columns or the `group` column, and for a label cell that cannot be
    read or has no name.
    """
    for column, option in _needed(columns, group):
        require_column(table, column, option=option)
    reading = Reading()
    for row, line in zip(table.rows, table.lines, strict=True):
        origin = f"{name}:{line}"
        if line in table.overlong:
            example = Example(text_of(row, columns.text), (), origin)
            reading.dropped.append(Dropped(example, "overlong"))
        else:
            labels = columns.labels_of(row, origin=origin)
            example = Example(text_of(row, columns.text), _names(labels or (), table.codebook, origin), origin)
            reading.examples.append(example)
            if labels is None:
                reading.unlabelled.add(origin)
            if group is not None and (value := (row.get(group) or "").strip()):
                reading.groups[origin] = value
        reading.rows.append(example)
    return reading


def _needed(columns: Columns, group: str | None) -> list[tuple[str, str]]:
    needed = [*((name, "--text") for name in columns.text), *((name, "--label") for name in columns.label)]
    return [*needed, (group, "data.group")] if group is not None else needed


def text_of(row: Cells, columns: Sequence[str]) -> str:
    """The text of a row, of several columns one turn a line."""
    cells = [row.get(name) or "" for name in columns]
    return cells[0] if len(cells) == 1 else joined_turns(cells)


def _names(labels: tuple[str, ...], codebook: Codebook | None, origin: str) -> tuple[str, ...]:
    return labels if codebook is None else tuple(codebook.name(label, origin=origin) for label in labels)
