"""What cells say of labels: separators, lists, and true or false in many words."""

import json
import random

import pytest

from tonetune.data.label_cells import (
    LIST,
    OWN_NAME,
    SEPARATORS,
    TRUTHS,
    find_separator,
    is_true,
    pieces_of,
    truth_style,
)
from tonetune.errors import DataError

NAMES = ["joy", "very sad", "愤怒", "fear-ful", "2"]


def label_sets(seed: int) -> list[tuple[str, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.sample(NAMES, k=rng.randint(1, 4))) for _ in range(100)]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("blank", ["", " "])
def test_joined_labels_come_apart(separator: str, blank: str) -> None:
    expected = label_sets(0)
    cells = [f"{separator}{blank}".join(names) for names in expected]
    assert find_separator(cells) == separator
    assert [pieces_of(cell, separator) for cell in cells] == expected


@pytest.mark.parametrize("write", [json.dumps, str, lambda names: f"[{', '.join(names)}]"])
def test_lists_come_apart_as_json_or_python_writes_them(write) -> None:
    expected = [*label_sets(1), ()]
    cells = [write(list(names)) for names in expected]
    assert find_separator(cells) == LIST
    assert [pieces_of(cell, LIST) for cell in cells] == expected


def test_a_repeated_label_counts_once_and_numbers_are_names():
    assert pieces_of("joy, joy,,sad ", ",") == ("joy", "sad")
    assert pieces_of("[2, 27, 2]", LIST) == ("2", "27")


def test_whole_labels_with_a_comma_have_no_separator():
    assert find_separator(["bad, really", "good", "bad, really"]) is None
    assert find_separator([]) is None


@pytest.mark.parametrize(("true", "false"), TRUTHS.items())
def test_every_way_to_say_true(true: str, false: str) -> None:
    cells = [true.upper(), false, f" {true} "]
    assert truth_style(cells, "joy") == true
    assert [is_true(cell, "joy", origin=None) for cell in [*cells, "", " "]] == [True, False, True, False, False]


def test_decimals_and_the_name_of_the_column_say_true_too():
    assert truth_style(["1.0", "0.0"], "joy") == truth_style(["1", "0"], "joy") == "1"
    assert truth_style(["Joy"], "joy") == OWN_NAME
    assert is_true("JOY ", "joy", origin=None) and is_true("1.0", "joy", origin=None)


@pytest.mark.parametrize("values", [[], ["2", "0"], ["yes", "0"], ["joy", "sad"]])
def test_what_is_no_truth(values: list[str]) -> None:
    assert truth_style(values, "fear") is None


def test_a_cell_that_is_neither_names_its_row():
    with pytest.raises(DataError, match="'maybe' in column 'joy'") as error:
        is_true("maybe", "joy", origin="a.csv:7")
    assert error.value.where == "a.csv:7"
