"""Parquet files and Hugging Face datasets saved on disk: typed columns, with the names of categories and classes."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonetune.data.readers.files import Modest, require_modest
from tonetune.data.readers.table import Cells, Table, flat_cells
from tonetune.data.readers.trial import ARROW, PARQUET, TRIAL
from tonetune.documents import parse_json, without_panics
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
        with without_panics():
            num_rows = polars.scan_parquet(io.BytesIO(data)).select(polars.len()).collect().item()
            require_modest(num_rows, len(data), path)
            TRIAL.require_survived(PARQUET, data, path)
            frame = polars.read_parquet(io.BytesIO(data))
            described = polars.read_parquet_metadata(io.BytesIO(data)).get("huggingface")
    except (PolarsError, RuntimeError, OSError) as error:
        hint = "fetch or write it again"
        raise DataError(f"not a whole Parquet file: {_first_line(error)}", where=str(path), hint=hint) from error
    features = _described(described, "info", "features", where=str(path)) if described else {}
    return _table(frame, features, path=path, format="parquet", num_bytes=len(data))


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
    entries = _of_file(path / STATE, "_data_files")
    files = [_inside(path, _described(entry, "filename", where=str(path / STATE)), STATE) for entry in entries]
    features = _of_file(path / "dataset_info.json", "features")
    try:
        with without_panics():
            parts = [file.read_bytes() for file in files]
            for file, part in zip(files, parts, strict=True):
                TRIAL.require_survived(ARROW, part, file)
            frame = polars.concat(polars.read_ipc_stream(io.BytesIO(part)) for part in parts)
    except (PolarsError, RuntimeError, OSError) as error:
        hint = "save the dataset again"
        raise DataError(f"not a whole dataset: {_first_line(error)}", where=str(path), hint=hint) from error
    return _table(frame, features, path=path, format="dataset", num_bytes=sum(map(len, parts)))


def is_dataset(path: Path) -> bool:
    """Whether a directory is a dataset saved on disk, of one split or of several."""
    return os.path.isfile(path / STATE) or os.path.isfile(path / SPLITS)


def dataset_splits(path: Path) -> dict[str, Path]:
    """The directories of the splits of a dataset that has several, by name; empty for anything else."""
    if not os.path.isfile(path / SPLITS):
        return {}
    return {str(name): _inside(path, name, SPLITS) for name in _of_file(path / SPLITS, "splits")}


def _inside(path: Path, name: object, said_by: str) -> Path:
    """The file or directory of that name in `path`. Raises DataError for a name that leads elsewhere."""
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        hint = "a dataset names files beside the list; do not use one whose maker you do not trust"
        raise DataError(f"{said_by} names {name!r}, which is no name of a file in it", where=str(path), hint=hint)
    return path / name


def _of_file(file: Path, key: str) -> Any:
    try:
        return _described(file.read_text(encoding="utf-8"), key, where=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"not a whole dataset: {error}", where=str(file), hint="save the dataset again") from error


def _described(value: Any, *keys: str, where: str) -> Any:
    """What a JSON text, or a value of one, has under these keys, one within the other."""
    try:
        value = parse_json(value) if isinstance(value, str) else value
        for key in keys:
            value = value[key]
        return value
    except (ValueError, KeyError, TypeError) as error:
        what = f"what describes the dataset has no {'.'.join(keys)}: {type(error).__name__}: {error}"
        raise DataError(what, where=where, hint="save the dataset again") from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]


def _table(frame: "DataFrame", features: Mapping[str, Any], *, path: Path, format: str, num_bytes: int) -> Table:
    rows: list[Cells] = []
    modest = Modest(num_bytes, path)
    for row in frame.iter_rows(named=True):
        try:
            rows.append(dict(flat_cells(_named(row, features))))
        except (ValueError, RecursionError) as error:
            raise DataError(f"row {len(rows) + 1} cannot be read: {error}", where=str(path)) from error
        modest.add(1 + sum(len(cell or "") for cell in rows[-1].values()))  # many rows may share one text of the file
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
