"""Laws of the label set: one order whatever the rows' order, one hash for one order, no label out of nowhere."""

import hashlib
import itertools
import pickle

import pytest

from tonetune.errors import DataError, UnknownLabelError
from tonetune.labels import LabelSet, all_numbers


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["sad", "joy", "anger", "joy"], ("anger", "joy", "sad")),
        (["10", "9", "2", "9"], ("2", "9", "10")),
        (["-1", "0", "1"], ("-1", "0", "1")),
        (["1.5", "1", "10"], ("1", "1.5", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["好", "差", "中"], ("中", "好", "差")),
        (["nan", "2", "10"], ("10", "2", "nan")),
        (["1", "1.0", "01"], ("01", "1", "1.0")),
    ],
)
def test_the_order_of_names_is_that_of_no_order_of_rows(values, names):
    assert {LabelSet.from_values(rows).names for rows in itertools.permutations(values)} == {names}


def test_index_is_the_place_in_the_names():
    labels = LabelSet(("b", "a", "c"))
    assert [labels.names[labels.index(name)] for name in labels.names] == list(labels.names)
    assert len(labels) == 3


@pytest.mark.parametrize("stranger", ["A", " a", "", "d"])
def test_a_label_outside_the_set_is_named_with_its_row(stranger):
    with pytest.raises(UnknownLabelError) as caught:
        LabelSet(("a", "b")).index(stranger, origin="t.csv:7")
    assert caught.value.where == "t.csv:7"
    assert repr(stranger) in caught.value.what and "a, b" in caught.value.what


@pytest.mark.parametrize("names", [("a", "b", "a"), ("a", ""), ("a", " "), ("a", "\u3000")])
def test_repeated_and_empty_names_are_refused(names):
    with pytest.raises(DataError) as caught:
        LabelSet(names)
    assert caught.value.where == "data.labels"


def test_the_hash_tells_orders_and_borders_of_names_apart():
    sets = [("a", "b"), ("b", "a"), ("ab",), ("a,b",), ('a", "b',), ("a",), (), ("喜", "怒")]
    assert len({LabelSet(names).hash for names in sets}) == len(sets)


def test_the_hash_is_that_of_the_names_alone_and_never_changes():
    expected = hashlib.sha256('["joy", "喜"]'.encode()).hexdigest()
    labels = LabelSet(("joy", "喜"))
    assert (
        labels.hash == LabelSet.from_values(["喜", "joy"]).hash == pickle.loads(pickle.dumps(labels)).hash == expected
    )
    assert labels.as_dict() == {"names": ["joy", "喜"], "sha256": expected}


@pytest.mark.parametrize(
    ("names", "numeric"),
    [
        (("0", "1"), True),
        (("1", "2.5"), True),
        (("1", "good"), False),
        (("nan", "1"), False),
        (("inf",), False),
        ((), False),
    ],
)
def test_a_set_is_numeric_where_every_name_is_a_number(names, numeric):
    assert LabelSet(names).numeric is all_numbers(names) is numeric


def test_the_error_for_a_stranger_shows_a_few_of_many_names():
    with pytest.raises(UnknownLabelError, match="and 4,991 more") as caught:
        LabelSet(tuple(f"label {i}" for i in range(5000))).index("x")
    assert len(caught.value.what) < 200
