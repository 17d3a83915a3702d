"""Files or examples to splits ready for training: read, cleaned, each text once, split, checked for leaks."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tonetune.data.cleaning import clean_rows
from tonetune.data.columns import AUTO, Columns, find_columns, require_columns
from tonetune.data.duplicates import drop_repeats, exact_leaks, first_by_hash
from tonetune.data.example import Example
from tonetune.data.readers import Table, read_table
from tonetune.data.rows import Dropped, Reading, file_names, read_rows
from tonetune.data.splits import HELD_OUT, TEST, TRAIN, VALIDATION, require_two_classes, split_examples
from tonetune.errors import DataError, GateError, listed
from tonetune.labels import LabelSet
from tonetune.rundir import RunDir, write_json, write_jsonl

LEAKS_SHOWN = 3


@dataclass(frozen=True)
class Prepared:
    """Splits ready for training.

    `splits`: "train", "validation" and, unless none was asked for, "test" to their examples. `dropped`: every row that
    is in none of them. `changed`: texts changed by each cleaning rule. `leaks`: pairs (row of an earlier split, row of
    a later one) with the same text; never any between splits made here. `columns`: where text and label were found, and
    `files`: path, sha256, split, format, encoding and rows of each file read; None and empty for rows that come from no
    file.
    """

    splits: dict[str, list[Example]]
    label_set: LabelSet
    dropped: list[Dropped]
    changed: Counter[str]
    leaks: list[tuple[Example, Example]]
    columns: Columns | None
    files: list[dict[str, object]]

    def limited(self, **counts: int) -> "Prepared":
        """The same with at most `counts[name]` rows in each named split: the first by the SHA-256 of their texts.

        The others are among the dropped rows, as "limit".
        """
        splits, dropped = {}, list(self.dropped)
        for name, part in self.splits.items():
            ordered, count = first_by_hash(part, len(part)), counts.get(name, len(part))
            splits[name] = ordered[:count]
            dropped += [Dropped(example, "limit") for example in ordered[count:]]
        return replace(self, splits=splits, dropped=dropped)

    def counts(self) -> dict[str, object]:
        """What `tonetune prepare --json` prints; near leaks are null because only equal texts are looked for."""
        return {
            "splits": {name: len(part) for name, part in self.splits.items()},
            "dropped": dict(Counter(row.reason for row in self.dropped)),
            "leaks": {"exact": len(self.leaks), "near": None},
        }

    def data_document(self) -> dict[str, object]:
        """The document `data.json`: file hashes, rows per split and label, rows dropped by reason, leaks."""
        splits = {}
        for name, part in self.splits.items():
            by_label = Counter(example.label for example in part)
            splits[name] = {"rows": len(part), "labels": {label: by_label[label] for label in self.label_set.names}}
        return {**self.counts(), "files": self.files, "splits": splits, "changed": dict(self.changed)}

    def write(self, directory: Path) -> None:
        """Write splits/*.jsonl, dropped.jsonl, labels.json and data.json. Raises DiskError."""
        run_dir = RunDir(directory)
        for name, part in self.splits.items():
            rows = [{"text": e.text, "label": e.label, "origin": e.origin} for e in part]
            write_jsonl(run_dir.split(name), rows)
        write_jsonl(run_dir.dropped, [row.as_dict() for row in self.dropped])
        write_json(run_dir.labels, self.label_set.as_dict())
        write_json(run_dir.data, self.data_document())


def prepare(
    train: Sequence[str | Path],
    *,
    validation: Sequence[str | Path] = (),
    test: Sequence[str | Path] = (),
    text: str,
    label: str,
    labels: Sequence[str] | None,
    rename: Mapping[str, str],
    group: str | None,
    task: str,
    allow_leaks: bool,
    rng: np.random.Generator,
    encoding: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
) -> Prepared:
    """Read, clean and split files.

    `text` and `label` name columns or are "auto"; `labels` fixes the label set (None: the labels of the training rows);
    `rename` maps label names before anything else; rows with the same value in column `group` stay in one split.
    `task` is "auto", "binary" or "single-label": the latter two say that each cell of the label column is one whole
    label, whatever it looks like. Files given as `validation` or `test` are cleaned and used as they are; what is not
    given is split off `train`.

    Raises DataError for files, columns or rows that cannot be used, for the task "multi-label", and for "binary" where
    the classes are not two, UnknownLabelError for a label outside the label
    set, GateError where a text is in two splits unless `allow_leaks`.
    """
    _require_supported(task)
    paths = {TRAIN: _paths(train), VALIDATION: _paths(validation), TEST: _paths(test)}
    tables = {
        name: [read_table(path, encoding=encoding, delimiter=delimiter, header=header) for path in part]
        for name, part in paths.items()
    }
    columns = require_columns(tables[TRAIN][0], text=text, label=label)
    if task != AUTO and len(columns.label) == 1:
        columns = replace(columns, task=task, separator=None)
    else:
        _require_one_label(columns, tables)
    names = file_names([path for part in paths.values() for path in part])
    readings = {
        name: _joined([read_rows(table, columns, name=names[table.path], group=group) for table in part])
        for name, part in tables.items()
    }
    given = {name: reading.examples for name, reading in readings.items() if paths[name]}
    prepared = prepare_examples(
        given.pop(TRAIN),
        given=given,
        groups=readings[TRAIN].groups,
        labels=labels,
        rename=rename,
        task=task,
        allow_leaks=allow_leaks,
        rng=rng,
    )
    overlong = [row for reading in readings.values() for row in reading.dropped]
    files = [_file_record(table, split=name) for name, part in tables.items() for table in part]
    return replace(prepared, dropped=overlong + prepared.dropped, columns=columns, files=files)


def read_labelled(paths: Sequence[str | Path], *, text: str, label: str) -> list[Example]:
    """Rows of files as they are written, one label each. Raises DataError for files and columns that cannot be used."""
    tables = [read_table(path) for path in _paths(paths)]
    columns = require_columns(tables[0], text=text, label=label)
    _require_one_label(columns, {TEST: tables})
    names = file_names([table.path for table in tables])
    return _joined([read_rows(table, columns, name=names[table.path]) for table in tables]).examples


def prepare_examples(
    train: Sequence[Example],
    *,
    given: Mapping[str, Sequence[Example]],
    groups: Mapping[str, str],
    labels: Sequence[str] | None,
    rename: Mapping[str, str],
    task: str,
    allow_leaks: bool,
    rng: np.random.Generator,
    held_out: Mapping[str, float] = HELD_OUT,
) -> Prepared:
    """As `prepare`, for rows already read; `given` has the ready-made splits, `groups` maps origins to groups.

    `held_out` names the splits there are beside the training rows, and the fraction of the rows that each gets where it
    is not given.
    """
    _require_supported(task)
    fixed = LabelSet(tuple(labels)) if labels is not None else None
    cleaned = clean_rows(train, rename=rename, labels=fixed)
    kept, repeats = drop_repeats(cleaned.examples)
    _require_usable(kept, cleaned.dropped + repeats, where="data.train")
    if task == "binary":
        _require_binary({example.label for example in kept})
    require_two_classes(kept)
    label_set = fixed or LabelSet.from_values(example.label for example in kept)
    _require_rows(kept, label_set)
    ready = {name: clean_rows(rows, rename=rename, labels=label_set) for name, rows in given.items()}
    for name, part in ready.items():
        _require_usable(part.examples, part.dropped, where=f"data.{name}")
    missing = {name: fraction for name, fraction in held_out.items() if name not in ready}
    made = split_examples(kept, held_out=missing, groups=groups, rng=rng)
    found = made | {name: part.examples for name, part in ready.items()}
    splits = {name: found[name] for name in (TRAIN, VALIDATION, TEST) if name in found}
    leaks = exact_leaks(splits)
    if leaks and not allow_leaks:
        raise _leak_error(leaks)
    parts = [cleaned, *ready.values()]
    return Prepared(
        splits=splits,
        label_set=label_set,
        dropped=[row for part in parts for row in part.dropped] + repeats,
        changed=sum((part.changed for part in parts), Counter()),
        leaks=leaks,
        columns=None,
        files=[],
    )


def _paths(paths: Sequence[str | Path]) -> list[Path]:
    return [Path(path).expanduser() for path in paths]


def _joined(readings: Sequence[Reading]) -> Reading:
    joined = Reading()
    for reading in readings:
        joined.rows.extend(reading.rows)
        joined.examples.extend(reading.examples)
        joined.dropped.extend(reading.dropped)
        joined.groups.update(reading.groups)
    return joined


def _file_record(table: Table, *, split: str) -> dict[str, object]:
    digest = hashlib.sha256(table.path.read_bytes()).hexdigest()
    record = {"path": str(table.path), "sha256": digest, "split": split}
    return {**record, "format": table.format, "encoding": table.encoding, "rows": len(table)}


def _require_one_label(columns: Columns, tables: Mapping[str, Sequence[Table]]) -> None:
    """Multi-label rows are not single-label rows with odd names: refuse them wherever they appear."""
    for part in tables.values():
        for table in part:
            named = all(name in table.columns for name in columns.label)
            found = find_columns(table, text=str(columns.text), label=columns.label[0]) if named else columns
            if "multi-label" in (columns.task, found.task):
                raise DataError(
                    f"one label a row is expected; column {listed(columns.label)} looks multi-label",
                    where=str(table.path),
                    hint="name a column with one label per row with --label, or, where its cells are whole labels, set "
                    "data.task: single-label",
                )


def _require_supported(task: str) -> None:
    if task == "multi-label":
        raise DataError(
            "multi-label rows are not supported by this version",
            where="data.task",
            hint="set data.task: auto and name a column with one label per row",
        )


def _require_binary(classes: Collection[str]) -> None:
    if len(classes) != 2:
        raise DataError(
            f"a binary task has two classes, found {len(classes):,}: {listed(sorted(classes))}",
            where="data.task",
            hint="set data.task: auto, or merge classes under data.rename",
        )


def _require_rows(kept: Sequence[Example], label_set: LabelSet) -> None:
    present = {example.label for example in kept}
    absent = [name for name in label_set.names if name not in present]
    if absent:
        raise DataError(
            f"no training row has the label {listed(map(repr, absent))}; found: {listed(sorted(present))}",
            where="data.labels",
            hint="remove it from data.labels, add rows of it, or map another name to it under data.rename",
        )


def _require_usable(examples: Sequence[Example], dropped: Sequence[Dropped], *, where: str) -> None:
    if not examples:
        reasons = ", ".join(f"{reason} {n}" for reason, n in Counter(row.reason for row in dropped).items())
        raise DataError(
            f"no usable row ({reasons or 'there are no rows at all'})",
            where=where,
            hint="see how the file is understood with tonetune inspect FILE",
        )


def _leak_error(leaks: Sequence[tuple[Example, Example]]) -> GateError:
    pairs = (f"{first.origin} = {second.origin}" for first, second in leaks)
    return GateError(
        f"{len(leaks)} texts are in more than one split: {listed(pairs, LEAKS_SHOWN, separator='; ')}",
        where=leaks[0][1].origin,
        hint="remove them from one side, or accept optimistic numbers with --allow-leaks",
    )
