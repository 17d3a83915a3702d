"""Repeats and leaks: the same text is found in any dress, and every row is accounted for."""

from tonetune.data.duplicates import drop_repeats, find_leaks, first_by_hash, text_key
from tonetune.data.example import Example


def examples(*rows: tuple[str, str]) -> list[Example]:
    return [Example(text, (label,), f"a.csv:{line}") for line, (text, label) in enumerate(rows, start=2)]


def test_the_same_text_in_other_dress_has_the_same_key() -> None:
    assert len({text_key(t) for t in ("Very good", "ＶＥＲＹ　good", " very\n good ", "VERY GOOD")}) == 1
    assert len({text_key(t) for t in ("good", "good!", "good 😀", "not good")}) == 4


def test_repeats_keep_the_first_and_contradictions_keep_none() -> None:
    rows = examples(("A", "pos"), ("b", "neg"), ("a ", "pos"), ("c", "pos"), ("Ｃ", "neg"), ("c", "pos"))
    kept, dropped = drop_repeats(rows)
    assert kept == rows[:2]
    assert [(row.example, row.reason) for row in dropped] == [
        (rows[2], "duplicate"),
        (rows[3], "contradiction"),
        (rows[4], "contradiction"),
        (rows[5], "contradiction"),
    ]


def test_first_by_hash_does_not_depend_on_the_order_of_rows() -> None:
    rows = examples(*((f"text {i}", "pos") for i in range(50)))
    assert first_by_hash(rows, 10) == first_by_hash(rows[::-1], 10)
    assert first_by_hash(rows, 10) == first_by_hash(rows, 30)[:10]
    assert len(first_by_hash(rows, 99)) == 50


def test_leaks_are_found_between_all_splits() -> None:
    train, validation, test = examples(("a", "p"), ("b", "n")), examples(("B", "n"), ("c", "p")), examples(("c ", "p"))
    exact, almost = find_leaks({"train": train, "validation": validation, "test": test}, {})
    assert exact == [(train[1], validation[0]), (validation[1], test[0])] and almost == []
    assert find_leaks({"train": train + train, "validation": examples(("c", "p"))}, {}) == ([], [])


def test_near_leaks_are_those_that_are_not_exact() -> None:
    train, validation = examples(("one", "p"), ("two", "n")), examples(("One", "p"), ("ones", "p"), ("new", "n"))
    test = examples(("ones", "p"), ("onesy", "p"), ("twos", "n"), ("news", "n"), ("newer", "n"))
    near = {
        "one": "one",
        "ones": "one",
        "onesy": "one",
        "two": "two",
        "twos": "two",
        "newer": "newer",
        "newly": "newer",
    }
    exact, almost = find_leaks({"train": train, "validation": validation, "test": test}, near)
    assert exact == [(train[0], validation[0]), (validation[1], test[0])]
    assert almost == [(train[0], validation[1]), (train[0], test[1]), (train[1], test[2])]


def test_the_same_row_twice_is_a_repeat() -> None:
    (row,) = examples(("a", "pos"))
    kept, dropped = drop_repeats([row, row])
    assert kept == [row] and [d.reason for d in dropped] == ["duplicate"]
