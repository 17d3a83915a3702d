"""Laws of the paired comparison, checked against statsmodels, by hand, and by simulation."""

import math

import numpy as np
import pytest

from tonetune.errors import DataError
from tonetune.evaluation.paired import mcnemar, paired
from tonetune.evaluation.tally import Tally


def compared(gold, first, second, *, num_labels=3, seed=0):
    columns = (np.asarray(part) for part in (gold, first, second))
    return paired(*columns, num_labels=num_labels, rng=np.random.default_rng(seed))


def answers(rng, gold, right):
    return np.where(rng.random(len(gold)) < right, gold, rng.integers(3, size=len(gold)))


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (5, 5), (12, 3), (40, 61), (0, 9)])
def test_mcnemar_is_that_of_statsmodels(won, lost):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs statsmodels")
    assert mcnemar(won, lost) == pytest.approx(float(tables.mcnemar([[7, won], [lost, 7]], exact=True).pvalue))


def test_mcnemar_by_hand():
    """9 of 10 heads or as far from half: (1 + 10) * 2 / 1024."""
    assert mcnemar(9, 1) == mcnemar(1, 9) == pytest.approx(22 / 1024)
    assert mcnemar(3, 3) == mcnemar(0, 0) == 1.0


def test_difference_is_second_less_first_and_counts_are_exact():
    result = compared([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 2], [0, 0, 1, 0, 2, 2])
    assert (result.won, result.lost) == (2, 1)
    assert result.difference["accuracy"] == pytest.approx(1 / 6)
    one, other = (Tally.of(np.array([0, 0, 1, 1, 2, 2]), np.array(p), num_labels=3)
                  for p in ([0, 1, 1, 1, 0, 2], [0, 0, 1, 0, 2, 2]))  # fmt: skip
    assert result.difference["macro_f1"] == pytest.approx(float(other.macro_f1 - one.macro_f1))


def test_the_bootstrap_is_one_over_rows():
    rng = np.random.default_rng(3)
    gold = rng.integers(3, size=120)
    first, second = answers(rng, gold, 0.6), answers(rng, gold, 0.75)
    result = compared(gold, first, second)
    drawn = [
        [float(Tally.of(gold[rows], p[rows], num_labels=3).macro_f1) for p in (first, second)]
        for rows in rng.integers(120, size=(1500, 120))
    ]
    expected = np.quantile(np.diff(drawn), (0.025, 0.975))
    np.testing.assert_allclose(result.ci95["macro_f1"], expected, atol=0.015)


def test_equal_predictions_differ_in_nothing():
    gold = np.arange(30) % 3
    result = compared(gold, gold, gold)
    assert result.p_value == {"accuracy": 1.0, "macro_f1": 1.0} and result.ci95["macro_f1"] == (0.0, 0.0)
    assert not result.certain("accuracy")


def test_swapping_the_runs_turns_the_sign():
    rng = np.random.default_rng(5)
    gold = rng.integers(3, size=200)
    first, second = answers(rng, gold, 0.6), answers(rng, gold, 0.8)
    there, back = compared(gold, first, second), compared(gold, second, first)
    assert there.difference["accuracy"] == -back.difference["accuracy"] > 0
    assert there.p_value["accuracy"] == back.p_value["accuracy"] < 0.05
    assert (there.won, there.lost) == (back.lost, back.won)


@pytest.mark.slow
def test_between_equal_classifiers_one_in_twenty_is_called_better():
    rng = np.random.default_rng(7)
    called = {"accuracy": 0, "macro_f1": 0}
    trials = 150
    for _ in range(trials):
        gold = rng.integers(3, size=200)
        result = compared(gold, answers(rng, gold, 0.7), answers(rng, gold, 0.7))
        for metric in called:
            called[metric] += result.certain(metric)
    spread = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert called["accuracy"] / trials < 0.05 + spread  # an exact test is conservative
    assert abs(called["macro_f1"] / trials - 0.05) < spread


def test_no_text_is_an_error():
    with pytest.raises(DataError, match="no text"):
        compared(np.empty(0, int), np.empty(0, int), np.empty(0, int))
