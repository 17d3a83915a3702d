"""Laws of the learning rate: it rises in a line, is full once, and falls to its end, counted in optimiser steps."""

import math

import pytest

from tonetune.training.schedule import learning_rate_factor


def factors(total, warmup, schedule):
    return [
        learning_rate_factor(step, total_steps=total, warmup_steps=warmup, schedule=schedule)
        for step in range(1, total + 1)
    ]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (10, 0), (10, 3), (10, 9), (10, 10), (100, 5)])
def test_the_rate_rises_in_a_line_and_never_again(schedule, total, warmup):
    found = factors(total, warmup, schedule)
    assert found[:warmup] == pytest.approx([(i + 1) / warmup for i in range(warmup)])
    assert max(found) == 1.0 and min(found) > 0.0
    falling = found[max(0, warmup - 1) :]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 1])
def test_without_warmup_the_first_step_is_full(schedule, warmup):
    assert factors(7, warmup, schedule)[0] == 1.0


def test_a_constant_rate_stays_full():
    assert factors(10, 4, "constant")[3:] == [1.0] * 7


def test_a_linear_rate_loses_the_same_each_step_and_would_be_nothing_after_the_last():
    found = factors(12, 2, "linear")[2:]
    assert found == pytest.approx([1 - i / 10 for i in range(10)])
    assert found[-1] - (found[0] - found[1]) == pytest.approx(0.0)


def test_a_cosine_rate_is_half_in_the_middle_and_symmetric_about_it():
    found = factors(21, 1, "cosine")[1:]
    assert found[10] == pytest.approx(0.5)
    assert [a + b for a, b in zip(found[1:], found[:0:-1], strict=True)] == pytest.approx([1.0] * 19)
    assert found[-1] == pytest.approx(math.sin(math.pi / 40) ** 2)
