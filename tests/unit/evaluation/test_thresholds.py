"""Laws of the cut that makes a score a yes."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tonetune.errors import DataError
from tonetune.evaluation.thresholds import best_cut, fit_cuts


@pytest.mark.parametrize("seed", range(5))
def test_no_cut_has_a_better_f1(seed):
    """Every cut between two scores is tried; scores come in ties too."""
    rng = np.random.default_rng(seed)
    scores, gold = rng.integers(-8, 8, 40) / 4, rng.random(40) < 0.3
    found = f1_score(gold, scores > best_cut(scores, gold, near=0.0))
    every = [f1_score(gold, scores > cut, zero_division=0) for cut in np.arange(-3, 3, 0.125)]
    assert found == max(every)


def test_of_equal_cuts_the_nearest_is_taken_and_without_a_true_text_there_is_none_to_fit():
    scores, gold = np.array([3.0, 1.0, -1.0]), np.array([True, False, True])
    assert best_cut(scores, gold, near=-9.0) < -1.0  # all three, F1 0.8
    assert best_cut(scores, np.zeros(3, bool), near=0.7) == 0.7


def test_a_label_of_few_texts_is_drawn_to_the_shared_cut():
    rng = np.random.default_rng(0)
    gold = rng.random((4000, 3)) < (0.5, 0.5, 0.001)
    scores = np.where(gold, 1.0, -1.0) + rng.normal(scale=0.3, size=gold.shape) + (0.0, 4.0, 4.0)
    often, moved, rare = fit_cuts(scores, gold)
    assert often == pytest.approx(0.0, abs=0.5) and moved == pytest.approx(4.0, abs=0.5)
    shared = best_cut(scores.ravel(), gold.ravel(), near=0.0)
    own = best_cut(scores[:, 2], gold[:, 2], near=shared)
    trust = gold[:, 2].sum() / (gold[:, 2].sum() + 20)
    assert rare == pytest.approx(trust * own + (1 - trust) * shared)


def test_without_texts_there_is_nothing_to_fit():
    with pytest.raises(DataError, match="no text"):
        fit_cuts(np.empty((0, 2)), np.empty((0, 2), bool))
