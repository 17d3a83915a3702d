"""Laws of reading a report: digits count as written, whatever else it holds, and what is no report says so."""

import json
from decimal import Decimal

import pytest

from tonetune.errors import DataError
from tonetune.evaluation.reported import Reported


def read(tmp_path, text):
    path = tmp_path / "numbers.json"
    path.write_text(text, encoding="utf-8")
    return Reported.read(path)


def test_trailing_zeros_are_digits(tmp_path):
    reported = read(tmp_path, '{"accuracy": 0.70, "chance_level": 0.7, "note": ["anything"]}')
    assert reported.interval(reported.accuracy) == (Decimal("0.695"), Decimal("0.705"))
    assert reported.interval(reported.chance_level) == (Decimal("0.65"), Decimal("0.75"))


def test_given_decimals_hold_for_every_share(tmp_path):
    reported = read(tmp_path, '{"accuracy": 0.7, "decimals": 3}')
    assert reported.interval(reported.accuracy) == (Decimal("0.6995"), Decimal("0.7005"))


def test_classes_are_those_named_anywhere(tmp_path):
    assert read(tmp_path, '{"per_label": {"joy": {}}, "class_counts": {"fear": 1}}').classes == ["fear", "joy"]
    assert read(tmp_path, '{"confusion": [[1, 0], [0, 2]]}').classes == ["class 1", "class 2"]


@pytest.mark.parametrize(("cells", "counted"), [
    ([[8, 2], [2, 8]], True), ([[0.8, 0.2], [0.2, 0.8]], False), ([[1, 0], [0, 1]], False),
    ([[1.8, 0.2], [0.2, 0.8]], False),
    ([[0.8, None], [None, 0.8]], False),
])  # fmt: skip
def test_counts_are_told_from_shares(cells, counted):
    assert Reported.of({"confusion": cells}, where="test").counted is counted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON document"),
        ('{"accuracy": NaN}', "NaN is no number"),
        ('{"accuracy": "high"}', "accuracy: "),
        ('{"n": 0}', "n: "),
        ('{"per_label": {"joy": {"support": -1}}}', "per_label.joy.support: "),
        ('{"labels": ["a", "b"], "confusion": [[1]]}', "confusion: 1 rows for 2 labels"),
        ('{"confusion": [[1, 2], [3]]}', "confusion: 2 rows"),
        ('{"decimals": -1, "n": 0}', "and 1 more"),
    ],
)
def test_what_is_no_report_says_so(tmp_path, text, expected):
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert expected in error.value.what
    assert error.value.where.endswith("numbers.json") and (error.value.hint or text == "[1]")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot be read") as error:
        Reported.read(tmp_path / "absent.json")
    assert error.value.where.endswith("absent.json")


def test_a_byte_order_mark_is_no_part_of_it(tmp_path):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps({"n": 3}), encoding="utf-8-sig")
    assert Reported.read(path).n == 3


@pytest.mark.parametrize(
    ("confusion", "n", "counted"),
    [
        ([[3, 1], [0, 2]], None, True),
        ([[1, 1], [1, 0]], None, True),  # few texts: no cell above one
        ([[1, 0], [0, 0]], 1, True),
        ([[1, 0], [0, 1]], 2, True),
        ([[1, 0], [0, 1]], 200, False),  # a perfect classifier, in shares
        ([[1, 0], [0, 1]], None, False),
        ([[0.5, 0.5], [0, 1]], None, False),
        ([[None, 0.5], [0.2, None]], None, False),
    ],
)
def test_a_matrix_holds_texts_or_shares(confusion, n, counted):
    assert Reported.of({"confusion": confusion, "n": n}, where="x.json").counted is counted
