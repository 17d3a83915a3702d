"""On a narrow terminal the last parts of a note give way, and the rest stands whole."""

import pytest

from tonetune.progress import fitting

NOTE = "loss 0.123  45.6 texts/s  3.2 GiB  87%"


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (80, NOTE),
        (len(NOTE), NOTE),
        (len(NOTE) - 1, "loss 0.123  45.6 texts/s  3.2 GiB"),
        (12, "loss 0.123"),
        (-5, "loss 0.123"),
    ],
)
def test_whole_parts_are_left_out_from_the_end(room, shown):
    assert fitting(NOTE, room) == shown


def test_a_note_of_one_part_or_none_stays():
    assert (fitting("", 0), fitting("one part", 0)) == ("", "one part")
