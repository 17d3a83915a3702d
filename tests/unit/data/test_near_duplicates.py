"""Near duplicates: what brute force finds is found, nothing else is, whatever the order of the texts."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from tonetune.data.near_duplicates import SIMILARITY, _candidates, _hashes, near_groups, similarity

WORDS = "the film was long slow good bad very and we left early because rain fell on our old car 今天 天气 很好".split()


def variants(rng: random.Random, count: int) -> list[str]:
    """Texts of 5 to 40 words, and for some of them copies with a few characters changed, added or left out."""
    texts = []
    for _ in range(count):
        text = " ".join(rng.choices(WORDS, k=rng.randrange(5, 40)))
        texts.append(text)
        for _ in range(rng.choice([0, 0, 1, 3])):
            characters = list(text)
            for _ in range(rng.randrange(1, 7)):
                characters[rng.randrange(len(characters))] = rng.choice(["", "x", "好", "e!"])
            texts.append("".join(characters))
    return list(dict.fromkeys(texts))


def groups_of(near: dict[str, str]) -> set[frozenset[str]]:
    return {frozenset(text for text in near if near[text] == first) for first in set(near.values())}


def brute_force(texts: Sequence[str]) -> set[frozenset[str]]:
    """The connected parts of the graph of all pairs that are near, by merging sets."""
    parts = {text: {text} for text in texts}
    for a, b in itertools.combinations(texts, 2):
        if similarity(a, b) >= SIMILARITY and parts[a] is not parts[b]:
            parts[a] |= parts[b]
            parts |= dict.fromkeys(parts[b], parts[a])
    return {frozenset(part) for part in parts.values() if len(part) > 1}


@pytest.mark.parametrize("seed", range(5))
def test_what_brute_force_finds_is_found(seed: int) -> None:
    texts = variants(random.Random(seed), 60)
    expected, found = brute_force(texts), groups_of(near_groups(texts))
    assert len(expected) > 10
    assert all(any(group <= whole for whole in expected) for group in found)
    missed = sum(map(len, expected)) - sum(map(len, found))
    assert missed <= 0.01 * sum(map(len, expected))


def test_the_order_of_the_texts_changes_nothing() -> None:
    texts = variants(random.Random(5), 300)
    assert near_groups(texts) == near_groups(texts[::-1]) == near_groups(random.Random(1).sample(texts, len(texts)))


def test_a_group_is_named_by_its_first_text() -> None:
    texts = variants(random.Random(7), 100)
    near = near_groups(texts)
    assert near and all(first == min(t for t in near if near[t] == first) for first in near.values())


def test_similarity_by_its_definition() -> None:
    assert similarity("abcd", "abcd") == 1 and similarity("abc", "xyz") == 0
    assert similarity("ab", "abc") == 2 / 7  # of "  a", " ab", "ab ", "b  ", "abc", "bc ", "c  " two are shared
    assert similarity("", "") == 1 and similarity("", "a") == 0


@pytest.mark.parametrize(
    ("a", "b", "is_near"),
    [
        ("烦啊,烦。做的事情哪样是不要的", "【树洞】烦啊,烦。做的事情哪样是不要的!", False),
        ("为了配把钥匙跑了两趟了!明天还要跑第三趟!", "为了配把钥匙跑了两趟了!明天还要跑第三趟!唉", True),
        ("your flight was late again, nobody said a word", "your flight was late again, nobody said one word", True),
        ("not good", "very good", False),
        ("room 12 was fine", "room 13 was fine", False),
    ],
)  # fmt: skip
def test_what_is_near(a: str, b: str, is_near: bool) -> None:
    assert (similarity(a, b) >= SIMILARITY) == is_near == bool(near_groups([a, b]))


def test_no_texts_and_odd_texts() -> None:
    assert near_groups([]) == near_groups(["one"]) == near_groups(["", "a", "\ud83d", "\U0010ffff" * 9]) == {}
    assert len(near_groups(["哈" * 50, "哈" * 90, "x" * 200_000, "x" * 200_001])) == 4


def test_a_thousand_variants_of_one_text_cost_no_square() -> None:
    base = (
        "this is a rather long text about a film that nobody liked, and it goes on and on, as the film did, for hours "
    )
    texts = [f"{base}{i}" for i in range(1000)]
    assert len(list(_candidates(texts))) <= 14 * 3 * 1000
    near = near_groups(texts)
    assert len(near) == 1000 and len(set(near.values())) == 1


def test_hashes_agree_as_often_as_texts_are_similar() -> None:
    """A band of five hashes agrees with the fifth power of the similarity."""
    rng = random.Random(3)
    pairs = [(t, t[: len(t) * 4 // 5] + "".join(rng.sample(t, len(t) // 5))) for t in variants(rng, 400)]
    bands_BN, _ = _hashes([text for pair in pairs for text in pair])
    agreed = (bands_BN[:, ::2] == bands_BN[:, 1::2]).mean()
    assert agreed == pytest.approx(np.mean([similarity(*pair) ** 5 for pair in pairs]), abs=0.02)
