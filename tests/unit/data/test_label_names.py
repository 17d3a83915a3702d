"""Near-miss label names: slips are found, different words are left alone."""

import itertools
import random
import time
from collections import Counter

import pytest

from tonetune.data.cleaning import renamed
from tonetune.data.label_names import (
    difference,
    edit_distance,
    measures,
    near_misses,
    numbers_in_words,
    suspects,
)


def test_slips_are_mapped_to_the_frequent_spelling() -> None:
    counts = {"joy": 90, "Joy": 3, "joy ": 2, "ｊｏｙ": 1, "sadness": 80, "sadnes": 2, "very good": 50, "very_good": 2}
    expected = {"Joy": "joy", "joy ": "joy", "ｊｏｙ": "joy", "sadnes": "sadness", "very_good": "very good"}
    assert near_misses(counts) == expected


def test_different_words_are_left_alone() -> None:
    assert near_misses({"positive": 900, "negative": 3, "sad": 500, "mad": 5, "angry": 40, "angr": 39}) == {}
    assert near_misses({"0": 900, "1": 9, "10": 1, "-1": 3, "1.0": 2}) == {}
    assert near_misses({"高兴": 900, "高光": 1, "👍": 4, "👎": 4, ":)": 2, ":(": 2, "A": 90, "A-": 4}) == {}


def test_a_rename_never_points_at_a_renamed_name() -> None:
    renames = near_misses({"surprise": 500, "suprise": 20, "Suprise": 1, "surprize": 2})
    assert set(renames.values()) == {"surprise"}


def test_edit_distance_against_its_laws() -> None:
    words = ["", "a", "ab", "ba", "abc", "acb", "joy", "joyful", "愤怒", "愤努"]
    for a, b in itertools.product(words, words):
        assert edit_distance(a, b) == edit_distance(b, a)
        assert (edit_distance(a, b) == 0) == (a == b)
        assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))
    assert edit_distance("ab", "ba") == 1


def test_a_column_of_ids_or_texts_costs_no_more_than_its_rows() -> None:
    rng = random.Random(0)
    letters = ["".join(rng.choices("abcdefgh", k=9)) for _ in range(20_000)]
    began = time.perf_counter()
    assert near_misses(dict.fromkeys(letters, 1)) == {}
    assert near_misses({name: 100 if i < 10_000 else 1 for i, name in enumerate(letters)}) == {}
    assert near_misses({f"{name} " * 30: 100 if i < 200 else 1 for i, name in enumerate(letters[:400])}) == {}
    assert time.perf_counter() - began < 2.0


TROUBLED = Counter(
    {"愤怒": 90, "生气": 20, "angry": 15, "Angry": 2, "angrry": 1, "joy": 80, "j\u200boy": 1, "ｊｏｙ": 1, "JOY ": 2}
    | {"surprise": 50, "suprise": 2, "nan": 7, "N/A": 1, "未标注": 3, "neutral": 40}
)


def test_every_kind_of_trouble_has_its_own_code_and_rename() -> None:
    assert suspects(TROUBLED) == {
        "no_label_labels": {"nan": "", "N/A": "", "未标注": ""},
        "near_miss_labels": {
            "Angry": "愤怒", "angrry": "愤怒", "j\u200boy": "joy", "ｊｏｙ": "joy", "JOY ": "joy", "suprise": "surprise"
        },
        "synonym_labels": {"生气": "愤怒", "angry": "愤怒"},
    }  # fmt: skip


def test_pasting_every_rename_at_once_leaves_no_suspect() -> None:
    renames = {name: meant for found in suspects(TROUBLED).values() for name, meant in found.items()}
    after = Counter()
    for name, n in TROUBLED.items():
        after[renamed(name, renames)] += n
    assert set(after) == {"", "愤怒", "joy", "surprise", "neutral"}
    del after[""]
    assert suspects(after) == {}


@pytest.mark.parametrize(
    ("name", "meant", "kind"),
    [
        ("Joy", "joy", "case"),
        ("joy ", "joy", "blanks"),
        ("very_good", "very good", "blanks"),
        ("ｊｏｙ", "joy", "full-width"),
        ("j\u200boy", "joy", "invisible"),
        ("ＪＯＹ ", "joy", "several"),
        ("sadnes", "sadness", "typing error"),
    ],
)
def test_the_difference_is_named(name: str, meant: str, kind: str) -> None:
    assert kind in difference(name, meant)


def test_decimals_that_are_classes_and_numbers_that_are_none() -> None:
    assert suspects({"0.0": 50, "1.0": 40, "nan": 3}) == {
        "no_label_labels": {"nan": ""},
        "decimal_labels": {"0.0": "0", "1.0": "1"},
    }
    assert suspects({"-1.0": 4, "0": 5, "1.": 3})["decimal_labels"] == {"-1.0": "-1", "1.": "1"}
    assert suspects({"1": 9, "2": 9, "4.5": 9}) == {}
    assert suspects({"1.0": 9, "good": 9}) == {}
    ids = {str(1000 + i): 1 for i in range(300)}
    ages = {str(age): 3 for age in range(18, 90)}
    ratings = {f"{i / 7:.2f}": 2 for i in range(40)}
    for counts, words in ((ids, "ids"), (ages, "ages"), (ratings, "ratings")):
        assert measures(counts) and suspects(counts) == {} and words in numbers_in_words(counts)
    assert not measures({str(i): 9 for i in range(20)}) and not measures({f"class {i}": 1 for i in range(99)})
