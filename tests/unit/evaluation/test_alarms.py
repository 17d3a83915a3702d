"""Laws of the alarms: labels in another order and collapsed answers are named, an honest weak classifier is not."""

import numpy as np
import pytest

from tonetune.evaluation.alarms import alarms

LABELS = ("anger", "joy", "fear", "neutral")


def matrix(rng, *, right, num_texts=600, shares=(0.25, 0.25, 0.25, 0.25)):
    gold = rng.choice(4, size=num_texts, p=shares)
    predicted = np.where(rng.random(num_texts) < right, gold, rng.choice(4, size=num_texts, p=shares))
    confusion = np.zeros((4, 4), int)
    np.add.at(confusion, (gold, predicted), 1)
    return confusion


def codes(confusion):
    return [alarm["code"] for alarm in alarms(confusion, LABELS)]


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (1, 2, 3, 0), (3, 2, 1, 0)])
@pytest.mark.parametrize("right", [0.5, 0.9])
def test_every_other_order_of_the_labels_is_caught(order, right):
    confusion = matrix(np.random.default_rng(0), right=right)
    assert codes(confusion) == []
    (alarm,) = alarms(confusion[:, order], LABELS)
    assert alarm["code"] == "permuted_labels"
    answered = [LABELS[i] for i, moved in enumerate(order) if moved != i]
    assert all(f"{label} as " in alarm["what"] for label in answered)
    assert f"{confusion.trace() / 600:.1%}" in alarm["what"]


def test_the_order_that_would_be_right_is_named():
    (alarm,) = alarms(np.array([[0, 50, 0, 0], [50, 0, 0, 0], [0, 0, 50, 0], [0, 0, 0, 50]]), LABELS)
    assert "anger as joy" in alarm["what"] and "joy as anger" in alarm["what"]
    assert "100.0% instead of 50.0%" in alarm["what"]


@pytest.mark.parametrize("right", [0.0, 0.1, 0.3])
def test_guessing_raises_no_alarm(right):
    rng = np.random.default_rng(1)
    assert sum(bool(codes(matrix(rng, right=right, num_texts=n))) for n in (40, 400) for _ in range(100)) <= 1


@pytest.mark.parametrize("shares", [(0.25, 0.25, 0.25, 0.25), (0.9, 0.05, 0.03, 0.02)])
def test_one_answer_for_all_is_a_collapse_even_where_it_is_mostly_right(shares):
    confusion = np.diag(np.round(1000 * np.array(shares)).astype(int))
    assert codes(confusion) == []
    collapsed = np.zeros_like(confusion)
    collapsed[:, 0] = confusion.sum(axis=1)
    assert codes(collapsed) == ["collapsed"]
    assert (
        f"100% of the answers are 'anger', the label of {shares[0]:.0%} of the texts"
        in alarms(collapsed, LABELS)[0]["what"]
    )


def test_texts_of_one_class_are_no_collapse():
    assert codes(np.diag([9, 0, 0, 0])) == []
