"""Parquet files and Hugging Face datasets saved on disk: typed columns, with the names of categories and classes."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonetune.data.readers.table import Table, flat_cells
from tonetune.errors import DataError, UncertainError, listed

if TYPE_CHECKING:
    from polars import DataFrame

STATE = "state.json"
SPLITS = "dataset_dict.json"
LISTS = ("List", "LargeList", "Sequence")


def read_parquet(data: bytes, *, path: Path) -> Table:
    """A table from a Parquet file. Categories are their names, and so are the class labels that Hugging Face's datasets
    describe in the file; nested fields become dotted columns. Rows are numbered from 1.

    Raises DataError for a file that cannot be read and one without rows.
    """
    import polars
    from polars.exceptions import PolarsError

    try:
        frame = polars.read_parquet(io.BytesIO(data))
        described = polars.read_parquet_metadata(io.BytesIO(data)).get("huggingface")
    except (PolarsError, OSError) as error:
        hint = "fetch or write it again"
        raise DataError(f"not a whole Parquet file: {_first_line(error)}", where=str(path), hint=hint) from error
    features = _described(described, "info", "features", where=str(path)) if described else {}
    return _table(frame, features, path=path, format="parquet")


def read_dataset(path: Path) -> Table:
    """A table from the directory that `Dataset.save_to_disk` writes: the Arrow files that its state.json lists.

    Raises DataError for files that cannot be read and a dataset without rows, UncertainError for a dataset of several
    splits.
    """
    import polars
    from polars.exceptions import PolarsError

    if splits := dataset_splits(path):
        raise UncertainError(
            f"which split is it? candidates: {listed(splits)}",
            candidates=[{"role": "split", "split": name, "path": str(part)} for name, part in splits.items()],
            where=str(path),
            hint=f"name its directory, for example {next(iter(splits.values()))}",
        )
    names = [_described(entry, "filename", where=str(path / STATE)) for entry in _of_file(path / STATE, "_data_files")]
    features = _of_file(path / "dataset_info.json", "features")
    try:
        frame = polars.concat(polars.read_ipc_stream(path / str(name)) for name in names)
    except (PolarsError, OSError) as error:
        hint = "save the dataset again"
        raise DataError(f"not a whole dataset: {_first_line(error)}", where=str(path), hint=hint) from error
    return _table(frame, features, path=path, format="dataset")


def is_dataset(path: Path) -> bool:
    """Whether a directory is a dataset saved on disk, of one split or of several."""
    return (path / STATE).is_file() or (path / SPLITS).is_file()


def dataset_splits(path: Path) -> dict[str, Path]:
    """The directories of the splits of a dataset that has several, by name; empty for anything else."""
    if not (path / SPLITS).is_file():
        return {}
    return {str(name): path / str(name) for name in _of_file(path / SPLITS, "splits")}


def _of_file(file: Path, key: str) -> Any:
    try:
        return _described(file.read_text(encoding="utf-8"), key, where=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"not a whole dataset: {error}", where=str(file), hint="save the dataset again") from error


def _described(value: Any, *keys: str, where: str) -> Any:
    """What a JSON text, or a value of one, has under these keys, one within the other."""
    try:
        value = json.loads(value) if isinstance(value, str) else value
        for key in keys:
            value = value[key]
        return value
    except (ValueError, KeyError, TypeError) as error:
        what = f"what describes the dataset has no {'.'.join(keys)}: {type(error).__name__}: {error}"
        raise DataError(what, where=where, hint="save the dataset again") from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]


def _table(frame: "DataFrame", features: Mapping[str, Any], *, path: Path, format: str) -> Table:
    rows = [dict(flat_cells(_named(row, features))) for row in frame.iter_rows(named=True)]
    if not rows:
        raise DataError("the file has no rows", where=str(path))
    columns = dict.fromkeys(name for row in rows for name in row)
    return Table(path, format, None, None, list(columns), rows, list(range(1, len(rows) + 1)))


def _named(value: Any, feature: Any) -> Any:
    """A value with the names of class labels in place of their codes; a code without a name, such as -1, is None."""
    kind = feature.get("_type") if isinstance(feature, dict) else None
    if isinstance(value, dict) and isinstance(feature, dict):
        return {key: _named(item, feature.get(key)) for key, item in value.items()}
    if isinstance(value, list) and kind in LISTS:
        return [_named(item, feature["feature"]) for item in value]
    if isinstance(value, int) and kind == "ClassLabel":
        names: list[str] = feature.get("names", [])
        return names[value] if 0 <= value < len(names) else None
    return value
