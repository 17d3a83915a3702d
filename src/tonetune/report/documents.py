"""Documents of a run for the report: what a run of another version does not have is named, not a crash."""

from pathlib import Path
from typing import Any

from tonetune.errors import DataError
from tonetune.rundir import read_json, read_jsonl


class Document(dict[str, Any]):
    """A JSON object that knows its file: a key that is not there is a DataError with the file's name."""

    def __init__(self, values: dict[str, Any], file: str) -> None:
        super().__init__({key: _of(value, file) for key, value in values.items()})
        self.file = file

    def __missing__(self, key: str) -> Any:
        raise DataError(f"there is no {key!r}", where=self.file)


def document(path: Path, *, inside: Path) -> Any:
    """The JSON document at `path`, named from the directory `inside`; None where there is no such file.

    Raises DataError where it is damaged.
    """
    return _of(read_json(path), str(path.relative_to(inside))) if path.exists() else None


def documents(path: Path, *, inside: Path) -> list[Document]:
    """The rows of a JSON-lines file in order; none where there is no such file. Raises DataError as `read_jsonl`."""
    name = str(path.relative_to(inside))
    return [Document(row, name) for row in read_jsonl(path)] if path.exists() else []


def _of(value: Any, file: str) -> Any:
    if isinstance(value, dict):
        return Document(value, file)
    return [_of(item, file) for item in value] if isinstance(value, list) else value
