"""Laws of the split: nothing lost, nothing straddles, every class everywhere, whatever the order of the rows."""

import random
from collections import Counter

import numpy as np
import pytest

from tonetune.data.example import Example
from tonetune.data.splits import HELD_OUT_FRACTION, split_examples
from tonetune.errors import DataError

HELD_OUT = {"validation": HELD_OUT_FRACTION, "test": HELD_OUT_FRACTION}


def corpus(**sizes: int) -> list[Example]:
    rows = [(f"{label} {i}", label) for label, n in sizes.items() for i in range(n)]
    return [Example(text, (label,), f"a.csv:{line}") for line, (text, label) in enumerate(rows, start=2)]


def split(
    rows: list[Example],
    groups: dict[str, str] | None = None,
    held_out: dict[str, float] = HELD_OUT,
    seed: int = 0,
    near: dict[str, str] | None = None,
) -> dict[str, list[Example]]:
    rng = np.random.default_rng(seed)
    return split_examples(rows, held_out=held_out, groups=groups or {}, near=near or {}, rng=rng)


@pytest.mark.parametrize("seed", range(5))
def test_every_row_is_in_one_split_and_each_class_in_proportion(seed: int) -> None:
    sizes = {"joy": 700, "anger": 101, "fear": 7, "awe": 3}
    rows = corpus(**sizes)
    splits = split(rows, seed=seed)
    assert sorted(e.origin for part in splits.values() for e in part) == sorted(e.origin for e in rows)
    for name, fraction in {"train": 1 - 2 * HELD_OUT_FRACTION, **HELD_OUT}.items():
        counts = Counter(e.label for e in splits[name])
        for label, n in sizes.items():
            assert counts[label] >= 1
            assert abs(counts[label] - fraction * n) <= 1.11  # three rows, one for each split: 1 where 2.1 are due


def test_the_order_of_rows_changes_nothing_but_the_seed_does() -> None:
    rows = corpus(joy=200, anger=60, fear=5)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert split(rows) == split(shuffled)
    assert split(rows) != split(rows, seed=1)


@pytest.mark.parametrize("seed", range(5))
def test_groups_and_equal_texts_never_straddle(seed: int) -> None:
    rng = random.Random(seed)
    rows = corpus(joy=300, anger=120, fear=40)
    rows += [Example(e.text.upper(), e.labels, f"b.csv:{i}") for i, e in enumerate(rows[::9])]
    groups = {e.origin: f"author {rng.randrange(60)}" for e in rows[:300]}
    splits = split(rows, groups, seed=seed)
    assert sum(map(len, splits.values())) == len(rows)
    keys = [{groups.get(e.origin, e.text.casefold()) for e in part} for part in splits.values()]
    assert not (keys[0] & keys[1] or keys[0] & keys[2] or keys[1] & keys[2])
    assert all({e.label for e in part} == {"joy", "anger", "fear"} for part in splits.values())
    assert 0.6 < len(splits["train"]) / len(rows) < 0.8
    assert split(rows[::-1], groups, seed=seed) == splits


def test_fewer_splits_can_be_asked_for() -> None:
    rows = corpus(joy=40, anger=2)
    assert {name: len(part) for name, part in split(rows, held_out={"test": 0.5}).items()} == {"train": 21, "test": 21}
    assert split(rows, held_out={}).keys() == {"train"}


def test_a_class_too_small_is_named_with_its_count() -> None:
    with pytest.raises(DataError, match="class 'awe' has 1, class 'fear' has 2; at least 3") as error:
        split(corpus(joy=40, awe=1, fear=2))
    assert "data.rename" in str(error.value.hint)


def test_too_few_groups_are_named() -> None:
    rows = corpus(joy=40, anger=40)
    groups = {e.origin: f"{e.label} {i % 2}" for i, e in enumerate(rows)}
    with pytest.raises(DataError, match="too few groups"):
        split(rows, groups)


def test_one_class_is_no_classification() -> None:
    with pytest.raises(DataError, match="'joy'"):
        split(corpus(joy=40))


@pytest.mark.parametrize("seed", range(5))
def test_every_label_of_multi_label_rows_is_in_every_split_in_proportion(seed: int) -> None:
    rng = random.Random(seed)
    shares = {"joy": 0.4, "anger": 0.3, "fear": 0.1, "awe": 0.02}
    rows = []
    for i in range(1500):
        labels = tuple(label for label, share in shares.items() if rng.random() < share)
        rows.append(Example(f"text {i}", labels, f"a.csv:{i}"))
    splits = split(rows, seed=seed)
    assert sorted(e.origin for part in splits.values() for e in part) == sorted(e.origin for e in rows)
    for name, fraction in {"train": 1 - 2 * HELD_OUT_FRACTION, **HELD_OUT}.items():
        assert abs(len(splits[name]) / len(rows) - fraction) < 0.02
        for label in (*shares, None):
            found, whole = (sum(label in (e.labels or (None,)) for e in part) for part in (splits[name], rows))
            assert found >= 1
            assert abs(found - fraction * whole) <= max(2, 0.05 * fraction * whole)
    assert split(rows[::-1], seed=seed) == splits


@pytest.mark.parametrize("seed", range(3))
def test_what_is_linked_by_group_text_or_likeness_never_straddles(seed: int) -> None:
    rng = random.Random(seed)
    rows = corpus(joy=200, anger=150)
    groups = {e.origin: f"author {rng.randrange(90)}" for e in rows[::2]}
    near = {e.text: rows[rng.randrange(len(rows))].text for e in rows[::5]}
    splits = split(rows, groups, seed=seed, near=near)
    side = {e.origin: name for name, part in splits.items() for e in part}
    linked = {name: [e for e in rows if groups.get(e.origin) == name] for name in set(groups.values())}
    linked |= {first: [e for e in rows if near.get(e.text, e.text) == first] for first in near.values()}
    assert all(len({side[e.origin] for e in part}) == 1 for part in linked.values() if part)
    assert len(side) == len(rows) and set(side.values()) == {"train", "validation", "test"}
    assert split(rng.sample(rows, len(rows)), groups, seed=seed, near=near) == splits


def test_a_class_of_near_duplicates_cannot_be_split() -> None:
    rows = corpus(joy=40, anger=40)
    near = {e.text: "anger 0" for e in rows if e.label == "anger"}
    with pytest.raises(DataError, match=r"near duplicates count as one.*'anger' has 1"):
        split(rows, near=near)
