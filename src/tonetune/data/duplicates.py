"""Repeated texts: what counts as the same text, which copy is kept, and which rows contradict each other."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from tonetune.data.example import Example
from tonetune.data.rows import Dropped

Pair = tuple[Example, Example]


def text_key(text: str) -> str:
    """Texts with equal keys are the same text: NFKC, case folded, blanks collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def hash_order(text: str) -> bytes:
    """SHA-256 of the text: sorting by it is an order that no row order and no seed has a part in."""
    return hashlib.sha256(text.encode()).digest()


def first_by_hash(examples: Iterable[Example], count: int) -> list[Example]:
    """The first `count` examples in the order of the SHA-256 of their texts, in that order."""
    return sorted(examples, key=lambda example: hash_order(example.text))[:count]


def drop_repeats(examples: Sequence[Example]) -> tuple[list[Example], list[Dropped]]:
    """Keep each text once, in order of first appearance.

    Same text and labels: the first is kept, the others are dropped as "duplicate". Same text, other labels: nobody
    knows which one is right, so all are dropped as "contradiction".
    """
    keys = [text_key(example.text) for example in examples]
    first: dict[str, int] = {}
    contradictory: set[str] = set()
    for i, (key, example) in enumerate(zip(keys, examples, strict=True)):
        known = examples[first.setdefault(key, i)]
        if frozenset(known.labels) != frozenset(example.labels):
            contradictory.add(key)
    kept, dropped = [], []
    for i, (key, example) in enumerate(zip(keys, examples, strict=True)):
        if key in contradictory:
            dropped.append(Dropped(example, "contradiction"))
        elif first[key] == i:
            kept.append(example)
        else:
            dropped.append(Dropped(example, "duplicate"))
    return kept, dropped


def find_leaks(splits: Mapping[str, Sequence[Example]], near: Mapping[str, str]) -> tuple[list[Pair], list[Pair]]:
    """Rows whose text is in an earlier split, and others with a near duplicate there; `near` is from `near_groups`.

    Each is a pair (row of the earlier split, row of the later one). `splits` are in order: train, then validation, then
    test.
    """
    exact: list[Pair] = []
    almost: list[Pair] = []
    by_key: dict[str, Example] = {}
    by_group: dict[str, Example] = {}
    for examples in splits.values():
        keys = [text_key(example.text) for example in examples]
        for key, example in zip(keys, examples, strict=True):
            if key in by_key:
                exact.append((by_key[key], example))
            elif (group := near.get(key)) in by_group:
                almost.append((by_group[str(group)], example))
        for key, example in zip(keys, examples, strict=True):
            by_key.setdefault(key, example)
            if key in near:
                by_group.setdefault(near[key], example)
    return exact, almost
