"""Repeated texts: what counts as the same text, which copy is kept, and which rows contradict each other."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from tonetune.data.example import Example
from tonetune.data.rows import Dropped


def text_key(text: str) -> str:
    """Texts with equal keys are the same text: NFKC, case folded, blanks collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def hash_order(text: str) -> str:
    """SHA-256 of the text: sorting by it is an order that no row order and no seed has a part in."""
    return hashlib.sha256(text.encode()).hexdigest()


def first_by_hash(examples: Iterable[Example], count: int) -> list[Example]:
    """The first `count` examples in the order of the SHA-256 of their texts, in that order."""
    return sorted(examples, key=lambda example: hash_order(example.text))[:count]


def drop_repeats(examples: Sequence[Example]) -> tuple[list[Example], list[Dropped]]:
    """Keep each text once, in order of first appearance.

    Same text and labels: the first is kept, the others are dropped as "duplicate". Same text, other labels: nobody
    knows which one is right, so all are dropped as "contradiction".
    """
    labels_by_key: dict[str, set[frozenset[str]]] = {}
    keys = [text_key(example.text) for example in examples]
    for key, example in zip(keys, examples, strict=True):
        labels_by_key.setdefault(key, set()).add(frozenset(example.labels))
    kept: dict[str, Example] = {}
    dropped = []
    for key, example in zip(keys, examples, strict=True):
        if len(labels_by_key[key]) > 1:
            dropped.append(Dropped(example, "contradiction"))
        elif key in kept:
            dropped.append(Dropped(example, "duplicate"))
        else:
            kept[key] = example
    return list(kept.values()), dropped


def exact_leaks(splits: Mapping[str, Sequence[Example]]) -> list[tuple[Example, Example]]:
    """Rows whose text is also in an earlier split, each as (row of the earlier split, row of the later one).

    `splits` are in order: train, then validation, then test.
    """
    seen: dict[str, Example] = {}
    leaks = []
    for examples in splits.values():
        keys = [text_key(example.text) for example in examples]
        leaks += [(seen[key], example) for key, example in zip(keys, examples, strict=True) if key in seen]
        for key, example in zip(keys, examples, strict=True):
            seen.setdefault(key, example)
    return leaks
