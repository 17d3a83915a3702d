"""Files to rows by split: which file is of which split, what its columns are, and what does not fit is refused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tonetune.data.columns import AUTO, Columns, require_columns
from tonetune.data.example import Example
from tonetune.data.readers import AS_FOUND, ReadOptions, Table, read_tables, split_paths
from tonetune.data.readers.files import file_sha256
from tonetune.data.rows import Dropped, Reading, file_names, read_rows
from tonetune.data.splits import TEST, TRAIN, VALIDATION
from tonetune.errors import DataError, listed
from tonetune.labels import MULTI_LABEL

SPLIT_NAMES = {
    **{"train": TRAIN, "test": TEST},
    **dict.fromkeys(("validation", "valid", "val", "dev"), VALIDATION),
}
"""What datasets call their splits."""


def paths_by_split(
    train: Sequence[str | Path], validation: Sequence[str | Path], test: Sequence[str | Path]
) -> dict[str, list[Path]]:
    """The files of each split. Raises DataError for a dataset whose splits are no such splits."""
    paths: dict[str, list[Path]] = {TRAIN: [], VALIDATION: [], TEST: []}
    for split, given in zip(paths, (train, validation, test), strict=True):
        for path in given:
            for name, part in split_paths(path).items():
                if name and (split != TRAIN or name not in SPLIT_NAMES):
                    what, hint = f"the dataset has a split {name!r}", f"name the directory of one split, such as {part}"
                    raise DataError(what, where=str(path), hint=hint)
                paths[SPLIT_NAMES[name] if name else split].append(part)
    return paths


def read_splits(
    paths: Mapping[str, Sequence[Path]],
    *,
    text: str | Sequence[str],
    label: str | Sequence[str],
    group: str | None,
    task: str,
    options: ReadOptions,
) -> tuple[dict[str, Reading], Columns, list[dict[str, object]]]:
    """The rows of the files by split, the columns, and the records of the files; no table outlives the call.

    Raises what reading raises, UncertainError for columns that are, DataError for a row of several labels in a task of
    one.
    """
    names = file_names([path for part in paths.values() for path in part])
    tables = dict(zip(names, read_tables(list(names), options), strict=True))
    columns = _columns(tables[paths[TRAIN][0]], text=text, label=label, task=task)
    readings = {
        name: _joined([read_rows(tables[path], columns, name=names[path], group=group) for path in part])
        for name, part in paths.items()
    }
    if columns.task != MULTI_LABEL:
        _require_one_label(readings.values(), columns)
    else:
        readings = {name: _without_unlabelled(reading) for name, reading in readings.items()}
    return readings, columns, [_file_record(tables[path], split=name) for name, part in paths.items() for path in part]


def read_labelled(
    paths: Sequence[str | Path],
    *,
    text: str | Sequence[str],
    label: str | Sequence[str],
    multi_label: bool = False,
    options: ReadOptions = AS_FOUND,
) -> list[Example]:
    """Rows of files as they are written, one label each, or any number of them where they are `multi_label`.

    Raises DataError for files and columns that cannot be used.
    """
    tables = read_tables([Path(path).expanduser() for path in paths], options)
    columns = _columns(tables[0], text=text, label=label, task=MULTI_LABEL if multi_label else AUTO)
    names = file_names([table.path for table in tables])
    reading = _joined([read_rows(table, columns, name=names[table.path]) for table in tables])
    if multi_label:
        return _without_unlabelled(reading).examples
    _require_one_label([reading], columns)
    return reading.examples


def _columns(table: Table, *, text: str | Sequence[str], label: str | Sequence[str], task: str) -> Columns:
    """The columns, and how their cells say labels where the task is set."""
    columns = require_columns(table, text=text, label=label)
    if task == AUTO:
        return columns
    whole_cells = task != MULTI_LABEL and len(columns.label) == 1
    return replace(columns, task=task, separator=None if whole_cells else columns.separator)


def _without_unlabelled(reading: Reading) -> Reading:
    """Rows that say nothing of labels are dropped: in multi-label data, having none is something else."""
    dropped = [Dropped(e, "missing_label") for e in reading.examples if e.origin in reading.unlabelled]
    examples = [e for e in reading.examples if e.origin not in reading.unlabelled]
    return replace(reading, examples=examples, dropped=[*reading.dropped, *dropped])


def _joined(readings: Sequence[Reading]) -> Reading:
    joined = Reading()
    for reading in readings:
        joined.rows.extend(reading.rows)
        joined.examples.extend(reading.examples)
        joined.dropped.extend(reading.dropped)
        joined.unlabelled.update(reading.unlabelled)
        joined.groups.update(reading.groups)
    return joined


def _file_record(table: Table, *, split: str) -> dict[str, object]:
    record = {"path": str(table.path), "sha256": file_sha256(table.path), "split": split}
    return {**record, "format": table.format, "encoding": table.encoding, "rows": len(table)}


def _require_one_label(readings: Iterable[Reading], columns: Columns) -> None:
    """Multi-label rows are not single-label rows with odd names: refuse them wherever they appear."""
    for reading in readings:
        for example in reading.examples:
            if len(example.labels) != 1 and example.origin not in reading.unlabelled:
                found = " and ".join(map(repr, example.labels)) or "none"
                raise DataError(
                    f"one label a row is expected in {listed(columns.label)}, found {found}: is it multi-label?",
                    where=example.origin,
                    hint="set data.task: multi-label or, where the cells of one column are whole labels, single-label",
                )
