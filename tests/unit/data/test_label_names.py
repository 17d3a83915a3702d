"""Near-miss label names: slips are found, different words are left alone."""

import itertools
import random
import time

from tonetune.data.label_names import edit_distance, near_misses


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
