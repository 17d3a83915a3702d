"""Stratified splits: every class in every split, groups on one side, whatever the order of the rows."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tonetune.data.duplicates import hash_order, text_key
from tonetune.data.example import Example
from tonetune.errors import DataError, listed

TRAIN, VALIDATION, TEST = "train", "validation", "test"
NO_LABEL = ""  # no label has this name
HELD_OUT_FRACTION = 0.15  # of the rows, for validation and for test each
HELD_OUT: Mapping[str, float] = {VALIDATION: HELD_OUT_FRACTION, TEST: HELD_OUT_FRACTION}


def split_examples(
    examples: Sequence[Example],
    *,
    held_out: Mapping[str, float],
    groups: Mapping[str, str],
    rng: np.random.Generator,
) -> dict[str, list[Example]]:
    """Split examples into "train" and the splits of `held_out`, which maps each name to its fraction.

    `groups` maps origins to groups; the examples of a group go to one split, and so do
    those without a group that share a text. Units are dealt
    out, largest first and at random among equals, each to the split that lacks most of what it holds: for a class the
    lack of a split is the share of its due rows still missing, and the lacks of a unit's classes are weighted by its
    share of each class. Without groups each split gets its fraction of each class to within a row, and at least one.
    Splits are in the order of the SHA-256 of their texts: neither split nor order depends on the order of the rows.

    Raises DataError for fewer than two classes and for a class that does not reach every split.
    """
    fractions = {TRAIN: 1.0 - sum(held_out.values()), **held_out}
    units = _units(examples, groups)
    _require_classes(examples, units, names=list(fractions), grouped=bool(groups))
    totals = _counted(examples)
    missing = {name: {label: fraction * n for label, n in totals.items()} for name, fraction in fractions.items()}
    splits: dict[str, list[Example]] = {name: [] for name in fractions}
    for unit in _dealing_order(units, totals, rng):
        counts = _counted(unit)
        lack = {
            name: sum(n * missing[name][label] / (fraction * totals[label] ** 2) for label, n in counts.items())
            for name, fraction in fractions.items()
        }
        chosen = max(lack, key=lack.__getitem__)
        splits[chosen] += unit
        for label, n in counts.items():
            missing[chosen][label] -= n
    _require_every_class(splits, labels=sorted(totals - Counter({NO_LABEL: totals[NO_LABEL]})))
    return {name: sorted(part, key=lambda e: (hash_order(e.text), e.origin)) for name, part in splits.items()}


def _units(examples: Sequence[Example], groups: Mapping[str, str]) -> list[list[Example]]:
    """Examples that have to stay together, in an order that depends on texts and groups only."""
    units: dict[tuple[bool, str], list[Example]] = {}
    for example in examples:
        group = groups.get(example.origin)
        key = (False, text_key(example.text)) if group is None else (True, group)
        units.setdefault(key, []).append(example)
    return [units[key] for key in sorted(units, key=lambda key: (key[0], hash_order(key[1])))]


def _counted(examples: Sequence[Example]) -> Counter[str]:
    """Rows of each class; a row without a label is one of NO_LABEL."""
    return Counter(label for example in examples for label in example.labels or (NO_LABEL,))


def _dealing_order(
    units: Sequence[list[Example]], totals: Mapping[str, int], rng: np.random.Generator
) -> list[list[Example]]:
    shuffled = [units[i] for i in rng.permutation(len(units))]
    return sorted(shuffled, key=lambda unit: (-len(unit), min(totals[label] for label in _counted(unit))))


def _require_classes(
    examples: Sequence[Example], units: Sequence[list[Example]], *, names: Sequence[str], grouped: bool
) -> None:
    require_two_classes(examples)
    counts = Counter(label for unit in units for label in classes_of(unit))
    small = {label: n for label, n in sorted(counts.items()) if n < len(names)}
    if small:
        what = "groups" if grouped else "distinct texts"
        found = listed(f"class {label!r} has {n}" for label, n in small.items())
        raise DataError(
            f"too few {what} to split: {found}; at least {len(names)} are needed, one for each of {', '.join(names)}",
            where="data.train",
            hint="add rows of it, or merge it into another class under data.rename",
        )


def classes_of(examples: Sequence[Example]) -> set[str]:
    """Every label that the examples have."""
    return {label for example in examples for label in example.labels}


def require_two_classes(examples: Sequence[Example]) -> None:
    """Raises DataError where the examples have fewer than two classes."""
    labels = sorted(classes_of(examples))
    if len(labels) < 2:
        raise DataError(
            f"a classifier needs at least two classes; found one class, {labels[0]!r}"
            if labels
            else "no rows, no classes",
            where="data.train",
            hint="add rows with other labels, or check that data.label names the right column",
        )


def _require_every_class(splits: Mapping[str, Sequence[Example]], *, labels: Sequence[str]) -> None:
    for name, part in splits.items():
        present = classes_of(part)
        absent = [label for label in labels if label not in present]
        if absent:
            raise DataError(
                f"no group with class {listed(map(repr, absent))} could be given to {name}",
                where="data.group",
                hint="the groups are too large: use finer ones, add rows, or give validation and test files",
            )
