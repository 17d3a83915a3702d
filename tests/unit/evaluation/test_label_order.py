"""Labels in another order are suspected, and weak answers are not."""

import numpy as np
import pytest

from tonetune.evaluation.label_order import better_names
from tonetune.evaluation.metrics import classification_metrics


def confusion(gold, predicted, labels):
    return classification_metrics(gold, predicted, labels, rng=np.random.default_rng(0)).confusion


@pytest.mark.parametrize("order", [[1, 0], [1, 2, 0], [3, 1, 2, 0], [4, 0, 1, 2, 3, 5, 6], [6, 1, 2, 3, 4, 5, 0]])
def test_answers_under_permuted_names_are_suspected(order):
    rng, labels = np.random.default_rng(1), [f"label {i}" for i in range(len(order))]
    gold = rng.integers(len(order), size=300)
    right = rng.random(300) < 0.8
    answer = np.where(right, gold, rng.integers(len(order), size=300))
    assert better_names(confusion(gold, answer, labels), labels) is None
    found = better_names(confusion(gold, np.array(order)[answer], labels), labels)
    assert found == {labels[order[i]]: labels[i] for i in range(len(order)) if order[i] != i}


@pytest.mark.parametrize("num_labels", [2, 3, 7, 40])
def test_guesses_are_not_suspected(num_labels):
    rng, labels = np.random.default_rng(2), [f"label {i}" for i in range(num_labels)]
    gold, guessed = (rng.integers(num_labels, size=400) for _ in range(2))
    for answer in (guessed, np.zeros(400, dtype=np.int64)):
        assert better_names(confusion(gold, answer, labels), labels) is None


def test_a_few_rows_prove_nothing():
    assert better_names([[0, 9], [0, 0]], ["a", "b"]) is None
    assert better_names([[0, 9], [9, 0]], ["a", "b"]) == {"b": "a", "a": "b"}
