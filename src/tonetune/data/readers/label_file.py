"""The label of each row from a file beside the rows, one a line."""

from dataclasses import replace
from pathlib import Path

from tonetune.data.readers.encodings import read_text
from tonetune.data.readers.files import split_lines
from tonetune.data.readers.table import Table
from tonetune.errors import DataError, UsageError

LABEL = "label"


def with_label_file(table: Table, label_file: Path, *, encoding: str | None) -> Table:
    """The table with a column "label" from a file that has the label of each row, one a line.

    Raises DataError where there are not as many lines as rows, UsageError where the table has such a column.
    """
    if LABEL in table.columns:
        raise UsageError(
            f"{table.path} has a column {LABEL!r} of its own", where="--label-file", hint="leave the label file out"
        )
    labels = split_lines(read_text(label_file, encoding=encoding).text)
    if len(labels) != len(table):
        raise DataError(
            f"{len(labels):,} labels for the {len(table):,} rows of {table.path}",
            where=str(label_file),
            hint="it has one label a line, in the order of the rows, and a blank line where there is none",
        )
    rows = [{**row, LABEL: label.strip()} for row, label in zip(table.rows, labels, strict=True)]
    return replace(table, columns=[*table.columns, LABEL], rows=rows)
