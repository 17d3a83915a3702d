"""Files to tables: one function for every format, chosen by the file's ending."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from tonetune.data.readers.delimited import read_delimited
from tonetune.data.readers.files import decode, read_bytes
from tonetune.data.readers.json_rows import read_json_rows
from tonetune.data.readers.table import Cells, Table
from tonetune.errors import DataError

__all__ = ["READERS", "Cells", "Reader", "Table", "read_table"]


class Reader(Protocol):
    """Turns a file into a table. A new format is one more of these in READERS."""

    def __call__(self, path: Path, *, encoding: str | None, delimiter: str | None, header: bool) -> Table:
        """The table in `path`; None means that the reader finds the value. Raises DataError for what it cannot read."""
        ...


def _delimited(path: Path, *, encoding: str | None, delimiter: str | None, header: bool, format: str) -> Table:
    text, found = decode(read_bytes(path), path=path, encoding=encoding)
    return read_delimited(text, path=path, format=format, encoding=found, delimiter=delimiter, header=header)


def _json(path: Path, *, encoding: str | None, delimiter: str | None, header: bool) -> Table:
    text, found = decode(read_bytes(path), path=path, encoding=encoding)
    return read_json_rows(text, path=path, encoding=found)


_csv: Callable[..., Table] = partial(_delimited, format="csv")
_tsv: Callable[..., Table] = partial(_delimited, format="tsv")

READERS: Mapping[str, Reader] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".tab": _tsv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
}


def read_table(
    path: str | Path, *, encoding: str | None = None, delimiter: str | None = None, header: bool = True
) -> Table:
    """Read a file by its ending (one of READERS, each also with .gz).

    `encoding` and `delimiter` override what is found in the file; without `header` the first line is a row and the
    columns are named "1", "2", …
    Raises DataError, naming the file and the line where there is one, for whatever cannot be read.
    """
    path = Path(path).expanduser()
    endings = [suffix.lower() for suffix in path.suffixes]
    ending = endings[-2] if len(endings) > 1 and endings[-1] == ".gz" else endings[-1] if endings else ""
    if ending not in READERS:
        if not path.exists() or path.is_dir():
            read_bytes(path)  # says that it is missing or a directory
        raise DataError(
            f"files ending in {ending!r} cannot be read" if ending else "a file without an ending cannot be read",
            where=str(path),
            hint=f"supported are {', '.join(READERS)}, each also with .gz",
        )
    return READERS[ending](path, encoding=encoding, delimiter=delimiter, header=header)
