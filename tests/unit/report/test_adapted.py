"""Laws of the rows of what was adapted: nothing is left out, and they fit a terminal."""

import io

import pytest
from rich.console import Console

from tonetune.report.adapted import adapted_rows, ranges
from tonetune.report.terminal import adapted_table

FULL = [{"name": "q_proj", "in": 5376, "out": 16384}, {"name": "o_proj", "in": 16384, "out": 5376}]
KINDS = [
    {
        "layers": [i for i in range(60) if i % 6 < 5],
        "adapted": [*FULL, {"name": "v_proj", "in": 5376, "out": 4096}, {"name": "up_proj", "in": 5376, "out": 21504}],
        "parameters": 1_234_567,
        "remarks": [],
    },
    {
        "layers": list(range(5, 60, 6)),
        "adapted": FULL,
        "parameters": 7,
        "remarks": ["no v_proj: its values are its keys"],
    },
    {"layers": [], "adapted": FULL[:1], "parameters": 3, "remarks": []},
]
DOCUMENT = {"layers": [{}] * 5, "kinds": KINDS}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([0, 1], "0–1"), ([0, 2], "0, 2"), ([0, 1, 2, 5, 7, 8, 9], "0–2, 5, 7–9"), (range(60), "0–59")],
)
def test_ranges(numbers, text):
    assert ranges(list(numbers)) == text


def test_a_row_says_how_many_layers_there_are():
    first, second, third = adapted_rows(DOCUMENT)
    assert first.parameters == "50 × 1,234,567" and second.parameters == "10 × 7" and third.parameters == "3"
    assert first.layers.startswith("0–4, 6–10, ") and second.layers == "5, 11, 17, 23, 29, 35, 41, 47, 53, 59"
    assert third.layers == "outside"


def test_a_kind_without_adapters_says_so():
    (row,) = adapted_rows({"kinds": [{"layers": [1], "adapted": [], "parameters": 0, "remarks": ["why"]}]})
    assert (row.adapted, row.remarks, row.parameters) == ("nothing", ["why"], "0")


def test_the_table_fits_80_columns():
    out = io.StringIO()
    Console(file=out, width=80).print(adapted_table(DOCUMENT))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "no v_proj: its values are its keys" in out.getvalue() and "50 × 1,234,567" in out.getvalue()
