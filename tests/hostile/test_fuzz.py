"""Any bytes that a stranger may hand over end in a result or a TonetuneError; `scripts/fuzz` tries for longer."""

import contextlib
import json
import time

import pytest
from fuzz_targets import TARGETS, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tonetune.errors import TonetuneError

SOUND = seeds()
LONGEST_S = 5
EDITS = st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=9), st.integers(0, 9)), max_size=6)
PIECES = st.sampled_from(
    [b'"', b"'", b"\0", b"\n", b"\r", b",", b"[" * 2000, b"{", b"}", b"\xff" * 8, b"NaN", b"9" * 5000]
)
OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "derandomize": True}


def handed_over(name: str, data: bytes) -> None:
    begun = time.perf_counter()
    try:
        TARGETS[name](data)
    except TonetuneError as error:
        json.dumps({**error.as_dict(), "shown": str(error)})
    assert time.perf_counter() - begun < LONGEST_S


def damaged(name: str, edits: list[tuple[int, bytes, int]], piece: bytes) -> bytes:
    data = SOUND[name][len(edits) % len(SOUND[name])]
    for at, new, removed in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + removed :]
    middle = len(data) // 2
    return data[:middle] + piece + data[middle:] if len(edits) % 2 else data


def test_every_target_has_a_sound_input():
    assert SOUND.keys() == TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_errors(name):
    with contextlib.suppress(TonetuneError):
        TARGETS[name](SOUND[name][0])  # what it imports is imported before the clock starts

    @settings(max_examples=6, **OPTIONS)
    @given(edits=EDITS, piece=PIECES)
    def check(edits, piece):
        handed_over(name, damaged(name, edits, piece))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_damaged_files_and_any_bytes_are_errors(name):
    @settings(max_examples=200, **OPTIONS)
    @given(edits=EDITS, piece=PIECES, raw=st.binary(max_size=200) | st.none())
    def check(edits, piece, raw):
        handed_over(name, damaged(name, edits, piece) if raw is None else raw)

    check()
