"""Files to tables: one function for every format, chosen by the file's ending."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tonetune.data.readers.arrow import dataset_splits, is_dataset, read_dataset, read_parquet
from tonetune.data.readers.codebook import Codebook, read_codebook
from tonetune.data.readers.delimited import read_delimited
from tonetune.data.readers.encodings import read_text
from tonetune.data.readers.files import read_bytes, require_short_cells
from tonetune.data.readers.json_rows import read_json_rows
from tonetune.data.readers.label_file import with_label_file
from tonetune.data.readers.lines import read_lines
from tonetune.data.readers.sheets import read_sheet
from tonetune.data.readers.table import AS_FOUND, Cells, ReadOptions, Table
from tonetune.errors import DataError, UsageError
from tonetune.spreadsheets import spreadsheet_plain

__all__ = [
    "AS_FOUND",
    "FORMATS",
    "Cells",
    "Codebook",
    "Format",
    "ReadOptions",
    "Table",
    "read_table",
    "read_tables",
    "split_paths",
]


@dataclass(frozen=True)
class Format:
    """How the files of a format are read, and which of the ReadOptions mean something for it."""

    read: Callable[[Path, ReadOptions], Table]
    hears: frozenset[str]


def _delimited(format: str) -> Format:
    def read(path: Path, options: ReadOptions) -> Table:
        return read_delimited(read_text(path, encoding=options.encoding), path=path, format=format, options=options)

    return Format(read, frozenset({"encoding", "delimiter", "header"}))


def _lines(path: Path, options: ReadOptions) -> Table:
    return read_lines(read_text(path, encoding=options.encoding), path=path, options=options)


def _json(path: Path, options: ReadOptions) -> Table:
    return read_json_rows(read_text(path, encoding=options.encoding), path=path)


def _workbook(path: Path, options: ReadOptions) -> Table:
    return read_sheet(read_bytes(path), path=path, options=options)


def _parquet(path: Path, options: ReadOptions) -> Table:
    return read_parquet(read_bytes(path), path=path)


_CSV, _TSV = _delimited("csv"), _delimited("tsv")
_JSON = Format(_json, frozenset({"encoding"}))
_WORKBOOK = Format(_workbook, frozenset({"header", "sheet"}))
_PARQUET = Format(_parquet, frozenset())
DATASET = Format(lambda path, options: read_dataset(path), frozenset())

FORMATS: Mapping[str, Format] = {
    ".csv": _CSV,
    ".tsv": _TSV,
    ".tab": _TSV,
    ".txt": Format(_lines, frozenset({"encoding", "delimiter", "header"})),
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".json": _JSON,
    ".xlsx": _WORKBOOK,
    ".xlsm": _WORKBOOK,
    ".parquet": _PARQUET,
}
"""A format by the ending of its files, each also with .gz. A new format is one more of these."""


def read_table(path: str | Path, options: ReadOptions = AS_FOUND) -> Table:
    """Read a file by its ending (one of FORMATS), or a directory that is a Hugging Face dataset saved on disk.

    `options` override what is found in the file.
    Raises DataError, naming the file and the line where there is one, for whatever cannot be read, UncertainError
    where it can be read in several ways, UsageError for an option that means nothing for the format.
    """
    path = Path(path).expanduser()
    format = _format(path)
    _require_heard(format, options, path)
    table = _without_apostrophes(format.read(path, options))
    for row, line in zip(table.rows, table.lines, strict=True):
        require_short_cells(list(row.values()), f"{path}:{line}")
    if options.label_file is not None:
        table = with_label_file(table, options.label_file, encoding=options.encoding)
    return table if options.codebook is None else replace(table, codebook=read_codebook(options.codebook))


def read_tables(paths: Sequence[Path], options: ReadOptions = AS_FOUND) -> list[Table]:
    """As `read_table`, for several files. Raises UsageError for a label file beside more than one."""
    if options.label_file is not None and len(paths) > 1:
        hint = "write each pair to one file with tonetune inspect FILE --label-file LABELS --to ROWS.jsonl"
        raise UsageError(f"one file of labels for {len(paths)} files of texts", where="--label-file", hint=hint)
    return [read_table(path, options) for path in paths]


def split_paths(path: str | Path) -> dict[str, Path]:
    """The directories of the splits of a dataset by their names, or the path itself by the name ""."""
    path = Path(path).expanduser()
    return dataset_splits(path) or {"": path}


def _without_apostrophes(table: Table) -> Table:
    """A table of predictions as they were before `write_predictions` made their cells harmless to spreadsheets."""
    known = any(names.issubset(table.columns) for names in OF_PREDICTIONS)
    if not (known and any(name.startswith(SCORE) for name in table.columns)):
        return table
    rows = [{k: v if v is None else spreadsheet_plain(v) for k, v in row.items()} for row in table.rows]
    return replace(table, rows=rows)


def _format(path: Path) -> Format:
    if is_dataset(path):
        return DATASET
    endings = [suffix.lower() for suffix in path.suffixes]
    ending = endings[-2] if len(endings) > 1 and endings[-1] == ".gz" else endings[-1] if endings else ""
    if ending not in FORMATS:
        if not os.path.isfile(path):
            read_bytes(path)  # says that it is missing or a directory
        supported = f"supported are {', '.join(FORMATS)}, each also with .gz"
        raise DataError(
            f"files ending in {ending!r} cannot be read" if ending else "a file without an ending cannot be read",
            where=str(path),
            hint=f"save it as .xlsx or .csv in the program that opens it; {supported}"
            if ending in SPREADSHEETS
            else supported,
        )
    return FORMATS[ending]


def _require_heard(format: Format, options: ReadOptions, path: Path) -> None:
    for name, flag in FLAGS.items():
        if getattr(options, name) != getattr(AS_FOUND, name) and name not in format.hears:
            raise UsageError(f"{flag} means nothing for {path.name}", where=flag, hint="leave it out")


SPREADSHEETS = frozenset((".xls", ".xlsb", ".ods", ".fods", ".numbers", ".et", ".gsheet"))
"""Endings of tables that a person can save in a format which is read."""

OF_PREDICTIONS, SCORE = [{"text", said, "confidence"} for said in ("label", "labels")], "score_"
"""Columns of every table of predictions, of one label a text or of several, and how those of its scores begin."""

FLAGS = {"encoding": "--encoding", "delimiter": "--delimiter", "header": "--no-header", "sheet": "--sheet"}
"""Those of the ReadOptions that not every format hears, as a person gives them."""
