"""Laws of the spread over seeds."""

import numpy as np
import pytest

from tonetune.evaluation.spread import spread


def test_mean_and_range_by_hand():
    found = spread([0.8, 0.82, 0.84])
    assert (found["mean"], found["range"]) == (pytest.approx(0.82), [0.8, 0.84])
    half = 4.302653 * 0.02 / 3**0.5  # t of 2 degrees of freedom
    assert found["ci95"] == pytest.approx([0.82 - half, 0.82 + half])


def test_the_interval_is_that_of_statsmodels():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats", reason="needs statsmodels")
    values = np.random.default_rng(0).normal(0.8, 0.02, size=7).tolist()
    assert spread(values)["ci95"] == pytest.approx(list(weightstats.DescrStatsW(values).tconfint_mean()))


def test_equal_seeds_leave_no_doubt():
    assert spread([0.5, 0.5])["ci95"] == [0.5, 0.5]
