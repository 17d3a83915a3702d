"""Stratified splits: every class in every split, groups on one side, whatever the order of the rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tonetune.data.duplicates import hash_order, text_key
from tonetune.data.example import Example
from tonetune.errors import DataError, listed

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)
NO_LABEL = ""  # no label has this name
HELD_OUT_FRACTION = 0.15  # of the rows, for validation and for test each
Ids = NDArray[np.int64]
HELD_OUT: Mapping[str, float] = {VALIDATION: HELD_OUT_FRACTION, TEST: HELD_OUT_FRACTION}


def split_examples(
    examples: Sequence[Example],
    *,
    held_out: Mapping[str, float],
    groups: Mapping[str, str],
    rng: np.random.Generator,
    near: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, list[Example]]:
    """Split examples into "train" and the splits of `held_out`, which maps each name to its fraction.

    `groups` maps origins to groups, and `near` is what `near_groups` says of the texts. Examples that share a group, a
    text or a group of near duplicates, be it through others, make a unit and go to one split. Units are dealt
    out, largest first and at random among equals, each to the split that lacks most of what it holds: for a class the
    lack of a split is the share of its due rows still missing, and the lacks of a unit's classes are weighted by its
    share of each class. Where no text has company each split gets its fraction of each class to within a row, and at
    least one.
    Splits are in the order of the SHA-256 of their texts: neither split nor order depends on the order of the rows.

    Raises DataError for fewer than two classes and for a class that does not reach every split.
    """
    require_two_classes(examples)
    fractions = {TRAIN: 1.0 - sum(held_out.values()), **held_out}
    ordered = sorted(examples, key=lambda example: (hash_order(example.text), example.origin))
    units = _units(ordered, groups, near)
    _require_classes(ordered, units, names=list(fractions), grouped=bool(groups))
    totals = _counted(ordered)
    missing = {name: {label: fraction * n for label, n in totals.items()} for name, fraction in fractions.items()}
    splits: dict[str, list[int]] = {name: [] for name in fractions}
    for unit in _dealing_order(units, _rarest(ordered, totals), rng):
        counts = _counted(ordered[i] for i in unit)
        lack = {
            name: sum(n * missing[name][label] / (fraction * totals[label] ** 2) for label, n in counts.items())
            for name, fraction in fractions.items()
        }
        chosen = max(lack, key=lack.__getitem__)
        splits[chosen] += unit
        for label, n in counts.items():
            missing[chosen][label] -= n
    found = {name: [ordered[i] for i in sorted(part)] for name, part in splits.items()}
    _require_every_class(found, labels=sorted(totals - Counter({NO_LABEL: totals[NO_LABEL]})))
    return found


def _units(examples: Sequence[Example], groups: Mapping[str, str], near: Mapping[str, str]) -> Ids:
    """The unit of each example, shape (N,), numbered from 0 in an order that depends on texts and groups only."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    keys = (text_key(example.text) for example in examples)
    texts_N = _numbered(near.get(key, key) for key in keys)
    grouped = np.flatnonzero([example.origin in groups for example in examples])
    if not len(grouped):
        return texts_N
    groups_G = _numbered(groups[examples[i].origin] for i in grouped.tolist()) + texts_N.max() + 1
    size = int(groups_G.max()) + 1
    graph = coo_array((np.ones(len(grouped), dtype=np.int8), (texts_N[grouped], groups_G)), shape=(size, size))
    _, parts = connected_components(graph, directed=False)
    return _renumbered(parts[texts_N])


def _numbered(names: Iterable[str]) -> Ids:
    """A number from 0 for each name, equal for equal names, in the order of their hashes."""
    return _renumbered(np.array([int.from_bytes(hash_order(name)[:8], "big") for name in names], dtype=np.uint64))


def _renumbered(values: NDArray[np.generic]) -> Ids:
    numbers: Ids = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _counted(examples: Iterable[Example]) -> Counter[str]:
    """Rows of each class; a row without a label is one of NO_LABEL."""
    return Counter(label for example in examples for label in example.labels or (NO_LABEL,))


def _rarest(examples: Sequence[Example], totals: Mapping[str, int]) -> Ids:
    """Rows of the rarest class of each example, shape (N,)."""
    return np.array([min(totals[label] for label in e.labels or (NO_LABEL,)) for e in examples], dtype=np.int64)


def _dealing_order(units: Ids, rarest: Ids, rng: np.random.Generator) -> Iterator[list[int]]:
    """The indices of each unit's examples: the largest units first, those with rare classes, at random among equals."""
    sizes = np.bincount(units)
    members, ends = np.argsort(units, kind="stable"), np.cumsum(sizes)
    rarest_U = np.minimum.reduceat(rarest[members], ends - sizes)
    shuffled = rng.permutation(len(sizes))
    for unit in shuffled[np.lexsort((rarest_U[shuffled], -sizes[shuffled]))].tolist():
        yield members[ends[unit] - sizes[unit] : ends[unit]].tolist()


def _require_classes(examples: Sequence[Example], units: Ids, *, names: Sequence[str], grouped: bool) -> None:
    held = {(label, unit) for e, unit in zip(examples, units.tolist(), strict=True) for label in e.labels}
    counts = Counter(label for label, _ in held)
    small = {label: n for label, n in sorted(counts.items()) if n < len(names)}
    if small:
        what = "groups" if grouped else "distinct texts (near duplicates count as one)"
        found = listed(f"class {label!r} has {n}" for label, n in small.items())
        raise DataError(
            f"too few {what} to split: {found}; at least {len(names)} are needed, one for each of {', '.join(names)}",
            where="data.train",
            hint="add rows of it, merge it into another class under data.rename, or give validation and test files",
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
