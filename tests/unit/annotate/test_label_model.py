"""The label model: accuracies come out as they were put in, votes that teach nothing change nothing."""

import numpy as np
import pytest

from tonetune.annotate.label_model import ABSTAINED, PRIOR_ACCURACY, fit


def made_votes(
    accuracies: tuple[float, ...], *, texts: int, labels: int, coverage: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """True labels and the votes of independent functions with these accuracies."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(labels, size=texts)
    votes = []
    for accuracy in accuracies:
        wrong = (gold + rng.integers(1, labels, size=texts)) % labels
        said = np.where(rng.random(texts) < accuracy, gold, wrong)
        votes.append(np.where(rng.random(texts) < coverage, said, ABSTAINED))
    return gold, np.stack(votes, axis=1)


@pytest.mark.parametrize("labels", [2, 4])
def test_accuracies_are_found_without_labels(labels: int) -> None:
    true = (0.9, 0.8, 0.65, 0.6)
    gold, votes = made_votes(true, texts=4000, labels=labels, coverage=0.7, seed=0)
    probs, found = fit(votes, labels)
    assert found.tolist() == sorted(found.tolist(), reverse=True) and found == pytest.approx(true, abs=0.1)
    voted = (votes != ABSTAINED).any(axis=1)
    counts = np.stack([(votes == c).sum(axis=1) for c in range(labels)], axis=1)
    assert (probs.argmax(axis=1) == gold)[voted].mean() > (counts.argmax(axis=1) == gold)[voted].mean() + 0.02


def test_a_function_that_knows_one_label_is_worth_something() -> None:
    """Two keywords of different labels beside one function for all: silence elsewhere does not make them useless."""
    _, votes = made_votes((0.85, 0.9, 0.9), texts=3000, labels=3, coverage=0.8, seed=1)
    votes[votes[:, 1] != 0, 1] = ABSTAINED
    votes[votes[:, 2] != 1, 2] = ABSTAINED
    probs, found = fit(votes, 3)
    assert min(found) > 0.6
    agreed = (votes[:, 1] == 0) & (votes[:, 0] == 0)
    assert np.median(probs[agreed, 0]) > 0.85


def test_votes_that_never_meet_keep_the_prior() -> None:
    votes = np.full((100, 2), ABSTAINED)
    votes[:40, 0], votes[50:, 1] = 0, 1
    probs, found = fit(votes, 3)
    assert found == pytest.approx([PRIOR_ACCURACY] * 2) and probs[0, 0] == pytest.approx(PRIOR_ACCURACY)
    assert probs[45] == pytest.approx([1 / 3] * 3)
    assert fit(np.full((5, 2), ABSTAINED), 2)[1].tolist() == [PRIOR_ACCURACY] * 2


def test_probabilities_sum_to_one_and_do_not_depend_on_the_order_of_texts() -> None:
    _, votes = made_votes((0.9, 0.6, 0.3), texts=500, labels=3, coverage=0.5, seed=2)
    order = np.random.default_rng(0).permutation(500)
    probs, found = fit(votes, 3)
    again, same = fit(votes[order], 3)
    assert probs.sum(axis=1) == pytest.approx(np.ones(500)) and again == pytest.approx(probs[order], abs=1e-4)
    assert same == pytest.approx(found, abs=1e-4)
