"""Files or examples to splits ready for training: read, cleaned, each text once, split, checked for leaks."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tonetune.data.cleaning import STANDARD_RULES, Changed, clean_rows, renamed
from tonetune.data.columns import AUTO, Columns
from tonetune.data.duplicates import Pair, drop_repeats, find_leaks, first_by_hash, text_key
from tonetune.data.example import Example
from tonetune.data.label_names import look_alikes, measures, numbers_in_words
from tonetune.data.near_duplicates import near_groups
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.data.rows import Dropped
from tonetune.data.split_files import paths_by_split, read_splits
from tonetune.data.splits import (
    HELD_OUT,
    SPLITS,
    TRAIN,
    classes_of,
    require_two_classes,
    split_examples,
)
from tonetune.errors import DataError, GateError, listed
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.rundir import RunDir, read_jsonl, write_json, write_jsonl

LEAKS_SHOWN = 3
WIDE_POINTS = 10
NORMAL_95 = 1.96  # standard normal quantile of a two-sided 95 % interval


@dataclass(frozen=True)
class Prepared:
    """Splits ready for training.

    `splits`: "train", "validation" and, unless none was asked for, "test" to their examples. `dropped`: every row that
    is in none of them. `changed`: the rows that `cleaning`, the names of its rules, changed, as they were read.
    `leaks`: pairs (row of an earlier split, row of a later one) with the same text, `near_leaks` with nearly the same;
    never any between splits made here. `near`: what `near_groups` found among all texts. `columns`: where text and
    label were found, and `files`: path, sha256, split, format, encoding and rows of each file read; None and empty for
    rows that come from no file. `multi_label`: whether a row may have several labels or none. `num_turns`: how many
    turns a text has.
    """

    splits: dict[str, list[Example]]
    label_set: LabelSet
    dropped: list[Dropped]
    changed: list[Changed]
    leaks: list[Pair]
    near_leaks: list[Pair]
    near: dict[str, str]
    columns: Columns | None
    files: list[dict[str, object]]
    cleaning: tuple[str, ...]
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
        """What `tonetune prepare --json` prints."""
        return {
            "splits": {name: len(part) for name, part in self.splits.items()},
            "dropped": dict(Counter(row.reason for row in self.dropped)),
            "leaks": {"exact": len(self.leaks), "near": len(self.near_leaks)},
        }

    @property
    def warnings(self) -> list[str]:
        """What a person should know before trusting a number: too few held-out rows to tell much."""
        widths = {name: half_width_points(len(part)) for name, part in self.splits.items() if name != TRAIN}
        return [
            f"{len(self.splits[name]):,} {name} rows: the 95 % interval of an accuracy measured on them is up to "
            f"±{points:.0f} points"
            for name, points in widths.items()
            if points >= WIDE_POINTS
        ]

    def data_document(self) -> dict[str, object]:
        """The document `data.json`: file hashes, rows per split and label, rows dropped by reason, leaks, warnings."""
        splits = {}
        for name, part in self.splits.items():
            by_label = Counter(label for example in part for label in example.labels)
            splits[name] = {"rows": len(part), "labels": {label: by_label[label] for label in self.label_set.names}}
        return {
            **self.counts(),
            "files": self.files,
            "columns": {"text": self.columns.text, "label": self.columns.label} if self.columns else None,
            "splits": splits,
            "cleaning": list(self.cleaning),
            "changed": dict(Counter(rule for row in self.changed for rule in row.rules)),
            "near_duplicates": {"texts": len(self.near), "groups": len(set(self.near.values()))},
            "warnings": self.warnings,
        }

    def write(self, directory: Path) -> None:
        """Write splits/*.jsonl, changed.jsonl, dropped.jsonl, labels.json and data.json. Raises DiskError.

        Changed and dropped rows are written as they were read, so that every change can be undone.
        """
        run_dir = RunDir(directory)
        for name, part in self.splits.items():
            rows = (e.as_row(multi_label=self.multi_label, num_turns=self.num_turns) for e in part)
            write_jsonl(run_dir.split(name), rows)
        write_jsonl(run_dir.changed, (row.as_dict() for row in self.changed))
        as_read = {row.example.origin: row.example for row in self.changed}
        dropped = (replace(row, example=as_read.get(row.example.origin, row.example)) for row in self.dropped)
        write_jsonl(run_dir.dropped, (row.as_dict() for row in dropped))
        write_json(run_dir.labels, self.label_set.as_dict())
        write_json(run_dir.data, self.data_document())


def half_width_points(num_rows: int) -> float:
    """Half the widest 95 % interval of an accuracy on n rows, in points: 196 sqrt(p (1 - p) / n) at p = 1/2."""
    return 100 * NORMAL_95 * math.sqrt(0.25 / num_rows)


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
    rules: tuple[str, ...] = STANDARD_RULES,
    options: ReadOptions = AS_FOUND,
) -> Prepared:
    """Read, clean and split files.

    `text` and `label` name columns, one or several, or are "auto"; `labels` fixes the label set (None: the labels of
    the training rows);
    `rename` maps label names before anything else; rows with the same value in column `group` stay in one split.
    `task` is what the rows make it ("auto"), or is set: "binary" and "single-label" say that each cell of the label
    column is one whole label, whatever it looks like, "multi-label" that a row may have any number of labels. `rules`
    are the cleaning rules that run. Files given as `validation` or `test` are cleaned and used as they are, and so are
    the splits of a dataset given as `train`; what is not given is split off `train`.

    Raises DataError for files, columns or rows that cannot be used, for a row of several labels where the task has one,
    and for "binary" where the classes are not two, UnknownLabelError for a label outside the label
    set, GateError where a text, or nearly the same, is in two splits unless `allow_leaks`.
    """
    paths = paths_by_split(train, validation, test)
    readings, columns, files = read_splits(paths, text=text, label=label, group=group, task=task, options=options)
    given = {name: reading.examples for name, reading in readings.items() if paths[name]}
    if task == AUTO and labels is None:
        _require_names(given[TRAIN], rename)
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
        rules=rules,
    )
    dropped = [row for reading in readings.values() for row in reading.dropped]
    return replace(prepared, dropped=dropped + prepared.dropped, columns=columns, files=files)


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
    rules: tuple[str, ...] = STANDARD_RULES,
) -> Prepared:
    """As `prepare`, for rows already read; `given` has the ready-made splits, `groups` maps origins to groups.

    `held_out` names the splits there are beside the training rows, and the fraction of the rows that each gets where it
    is not given.
    """
    fixed = LabelSet(tuple(labels)) if labels is not None else None
    multi_label = task == MULTI_LABEL
    clean = partial(clean_rows, rename=rename, multi_label=multi_label, num_turns=num_turns, rules=rules)
    cleaned = clean(train, labels=fixed)
    kept, repeats = drop_repeats(cleaned.examples)
    _require_usable(kept, cleaned.dropped + repeats, where="data.train")
    if task == "binary":
        _require_binary(classes_of(kept))
    require_two_classes(kept)
    label_set = fixed or LabelSet.from_values(classes_of(kept))
    _require_distinct(label_set)
    _require_rows(kept, label_set)
    ready = {name: clean(rows, labels=label_set) for name, rows in given.items()}
    for name, part in ready.items():
        _require_usable(part.examples, part.dropped, where=f"data.{name}")
    missing = {name: fraction for name, fraction in held_out.items() if name not in ready}
    texts = (example.text for part in (kept, *(cleaned.examples for cleaned in ready.values())) for example in part)
    near = near_groups(list(dict.fromkeys(map(text_key, texts))))
    made = split_examples(kept, held_out=missing, groups=groups, near=near, rng=rng)
    found = made | {name: part.examples for name, part in ready.items()}
    splits = {name: found[name] for name in SPLITS if name in found}
    leaks, almost = find_leaks(splits, near) if ready else ([], [])
    if (leaks or almost) and not allow_leaks:
        raise _leak_error(leaks, almost)
    parts = [cleaned, *ready.values()]
    return Prepared(
        splits=splits,
        label_set=label_set,
        dropped=[row for part in parts for row in part.dropped] + repeats,
        changed=[row for part in parts for row in part.changed],
        leaks=leaks,
        near_leaks=almost,
        near=near,
        columns=None,
        files=[],
        cleaning=rules,
        multi_label=multi_label,
        num_turns=num_turns,
    )


def _require_names(rows: Sequence[Example], rename: Mapping[str, str]) -> None:
    counts = Counter(name for row in rows for label in row.labels if (name := renamed(label, rename)))
    if measures(counts):
        raise DataError(
            f"the labels measure rather than name: {numbers_in_words(counts)}",
            where="data.label",
            hint="name another column, put the numbers into classes, or set data.task: single-label",
        )


def _require_binary(classes: Collection[str]) -> None:
    if len(classes) != 2:
        raise DataError(
            f"a binary task has two classes, found {len(classes):,}: {listed(sorted(classes))}",
            where="data.task",
            hint="set data.task: auto, or merge classes under data.rename",
        )


def _require_distinct(label_set: LabelSet) -> None:
    if pairs := look_alikes(label_set.names):
        first, second = (ascii(name) for name in pairs[0])
        raise DataError(
            f"two labels look the same and are not: {first} and {second}",
            where="data.labels",
            hint="make them one under data.rename: tonetune inspect FILE prints it",
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


def _leak_error(leaks: Sequence[Pair], almost: Sequence[Pair]) -> GateError:
    pairs = [f"{first.origin} = {second.origin}" for first, second in leaks]
    pairs += [f"{first.origin} ≈ {second.origin}" for first, second in almost]
    return GateError(
        f"{len(leaks):,} texts are in more than one split, and {len(almost):,} more have a near duplicate in another: "
        f"{listed(pairs, LEAKS_SHOWN, separator='; ')}",
        where=[*leaks, *almost][0][1].origin,
        hint="remove them from one side, or accept optimistic numbers with --allow-leaks",
    )
