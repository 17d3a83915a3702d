"""Files or examples to splits ready for training: read, cleaned, each text once, split, checked for leaks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tonetune.data.cleaning import clean_rows
from tonetune.data.columns import AUTO, MULTI_LABEL, Columns, require_columns
from tonetune.data.duplicates import drop_repeats, exact_leaks, first_by_hash
from tonetune.data.example import Example
from tonetune.data.readers import AS_FOUND, ReadOptions, Table, read_tables, split_paths
from tonetune.data.readers.files import file_sha256
from tonetune.data.rows import Dropped, Reading, file_names, read_rows
from tonetune.data.splits import (
    HELD_OUT,
    TEST,
    TRAIN,
    VALIDATION,
    classes_of,
    require_two_classes,
    split_examples,
)
from tonetune.errors import DataError, GateError, listed
from tonetune.labels import LabelSet
from tonetune.rundir import RunDir, read_jsonl, write_json, write_jsonl

LEAKS_SHOWN = 3
SPLIT_NAMES = {
    **{"train": TRAIN, "test": TEST},
    **dict.fromkeys(("validation", "valid", "val", "dev"), VALIDATION),
}
"""What datasets call their splits."""


@dataclass(frozen=True)
class Prepared:
    """Splits ready for training.

    `splits`: "train", "validation" and, unless none was asked for, "test" to their examples. `dropped`: every row that
    is in none of them. `changed`: texts changed by each cleaning rule. `leaks`: pairs (row of an earlier split, row of
    a later one) with the same text; never any between splits made here. `columns`: where text and label were found, and
    `files`: path, sha256, split, format, encoding and rows of each file read; None and empty for rows that come from no
    file. `multi_label`: whether a row may have several labels or none. `num_turns`: how many turns a text has.
    """

    splits: dict[str, list[Example]]
    label_set: LabelSet
    dropped: list[Dropped]
    changed: Counter[str]
    leaks: list[tuple[Example, Example]]
    columns: Columns | None
    files: list[dict[str, object]]
    multi_label: bool = False
    num_turns: int = 1

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
            by_label = Counter(label for example in part for label in example.labels)
            splits[name] = {"rows": len(part), "labels": {label: by_label[label] for label in self.label_set.names}}
        return {**self.counts(), "files": self.files, "splits": splits, "changed": dict(self.changed)}

    def write(self, directory: Path) -> None:
        """Write splits/*.jsonl, dropped.jsonl, labels.json and data.json. Raises DiskError."""
        run_dir = RunDir(directory)
        for name, part in self.splits.items():
            rows = [e.as_row(multi_label=self.multi_label, num_turns=self.num_turns) for e in part]
            write_jsonl(run_dir.split(name), rows)
        write_jsonl(run_dir.dropped, [row.as_dict() for row in self.dropped])
        write_json(run_dir.labels, self.label_set.as_dict())
        write_json(run_dir.data, self.data_document())


def prepare(
    train: Sequence[str | Path],
    *,
    validation: Sequence[str | Path] = (),
    test: Sequence[str | Path] = (),
    text: str | Sequence[str],
    label: str | Sequence[str],
    labels: Sequence[str] | None,
    rename: Mapping[str, str],
    group: str | None,
    task: str,
    allow_leaks: bool,
    rng: np.random.Generator,
    options: ReadOptions = AS_FOUND,
) -> Prepared:
    """Read, clean and split files.

    `text` and `label` name columns, one or several, or are "auto"; `labels` fixes the label set (None: the labels of
    the training rows);
    `rename` maps label names before anything else; rows with the same value in column `group` stay in one split.
    `task` is what the rows make it ("auto"), or is set: "binary" and "single-label" say that each cell of the label
    column is one whole label, whatever it looks like, "multi-label" that a row may have any number of labels. Files
    given as `validation` or `test` are cleaned and used as they are, and so are the splits of a dataset given as
    `train`; what is not given is split off `train`.

    Raises DataError for files, columns or rows that cannot be used, for a row of several labels where the task has one,
    and for "binary" where the classes are not two, UnknownLabelError for a label outside the label
    set, GateError where a text is in two splits unless `allow_leaks`.
    """
    paths = _by_split(train, validation, test)
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
    given = {name: reading.examples for name, reading in readings.items() if paths[name]}
    prepared = prepare_examples(
        given.pop(TRAIN),
        given=given,
        groups=readings[TRAIN].groups,
        labels=labels,
        rename=rename,
        task=MULTI_LABEL if columns.task == MULTI_LABEL else task,
        allow_leaks=allow_leaks,
        rng=rng,
        num_turns=len(columns.text),
    )
    dropped = [row for reading in readings.values() for row in reading.dropped]
    files = [_file_record(tables[path], split=name) for name, part in paths.items() for path in part]
    return replace(prepared, dropped=dropped + prepared.dropped, columns=columns, files=files)


def _by_split(
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


def read_labelled(
    paths: Sequence[str | Path],
    *,
    text: str | Sequence[str],
    label: str | Sequence[str],
    options: ReadOptions = AS_FOUND,
) -> list[Example]:
    """Rows of files as they are written, one label each. Raises DataError for files and columns that cannot be used."""
    tables = read_tables([Path(path).expanduser() for path in paths], options)
    columns = require_columns(tables[0], text=text, label=label)
    names = file_names([table.path for table in tables])
    reading = _joined([read_rows(table, columns, name=names[table.path]) for table in tables])
    _require_one_label([reading], columns)
    return reading.examples


def read_split(path: Path) -> list[Example]:
    """The rows of a split that `Prepared.write` wrote. Raises DataError where the file is absent or damaged."""
    return [Example.from_row(row) for row in read_jsonl(path)]


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
    num_turns: int = 1,
) -> Prepared:
    """As `prepare`, for rows already read; `given` has the ready-made splits, `groups` maps origins to groups.

    `held_out` names the splits there are beside the training rows, and the fraction of the rows that each gets where it
    is not given.
    """
    fixed = LabelSet(tuple(labels)) if labels is not None else None
    multi_label = task == MULTI_LABEL
    clean = partial(clean_rows, rename=rename, multi_label=multi_label, num_turns=num_turns)
    cleaned = clean(train, labels=fixed)
    kept, repeats = drop_repeats(cleaned.examples)
    _require_usable(kept, cleaned.dropped + repeats, where="data.train")
    if task == "binary":
        _require_binary(classes_of(kept))
    require_two_classes(kept)
    label_set = fixed or LabelSet.from_values(classes_of(kept))
    _require_rows(kept, label_set)
    ready = {name: clean(rows, labels=label_set) for name, rows in given.items()}
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
        multi_label=multi_label,
        num_turns=num_turns,
    )


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


def _require_binary(classes: Collection[str]) -> None:
    if len(classes) != 2:
        raise DataError(
            f"a binary task has two classes, found {len(classes):,}: {listed(sorted(classes))}",
            where="data.task",
            hint="set data.task: auto, or merge classes under data.rename",
        )


def _require_rows(kept: Sequence[Example], label_set: LabelSet) -> None:
    present = classes_of(kept)
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
