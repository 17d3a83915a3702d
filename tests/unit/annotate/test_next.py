"""Strategies: each asks for what it is named after, without repeats, and the same for the same generator."""

import numpy as np
import pytest

from tonetune.annotate.next import STRATEGIES, Pool, choose, entropy, margin


def pool(n: int = 200, seed: int = 0) -> Pool:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 6)).astype(np.float32)
    return Pool(rng.dirichlet(np.ones(4) * 0.7, size=n), lambda chosen: states[chosen])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_choices_are_distinct_and_repeatable(strategy: str) -> None:
    first, again = (choose(pool(), strategy=strategy, count=15, rng=np.random.default_rng(3)) for _ in range(2))
    assert first.tolist() == again.tolist() and len(set(first.tolist())) == len(first) == 15
    everything = choose(pool(9), strategy=strategy, count=15, rng=np.random.default_rng(3))
    assert sorted(everything.tolist()) == list(range(9))


def test_entropy_and_margin_by_their_definitions() -> None:
    probs = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.4, 0.3, 0.3]])
    assert entropy(probs) == pytest.approx([np.log(2), 0.0, -(0.4 * np.log(0.4) + 0.6 * np.log(0.3))])
    assert margin(probs) == pytest.approx([0.0, 1.0, 0.1])
    whole = Pool(probs, lambda chosen: np.zeros((len(chosen), 2), dtype=np.float32))
    for strategy, order in (("entropy", [2, 0, 1]), ("margin", [0, 2, 1])):
        assert choose(whole, strategy=strategy, count=3, rng=np.random.default_rng(0)).tolist() == order


def test_the_diverse_choice_is_unsure_and_spread() -> None:
    """Of four clusters of unsure texts every one is asked, and nothing of which the model is sure."""
    rng = np.random.default_rng(1)
    centres = np.eye(4).repeat(30, axis=0)
    states = (centres + rng.normal(scale=0.01, size=centres.shape)).astype(np.float32)
    sure = np.tile([0.99, 0.01], (400, 1))
    probs = np.concatenate([np.tile([0.5, 0.5], (120, 1)), sure])
    every = np.concatenate([states, rng.normal(size=(400, 4)).astype(np.float32)])
    chosen = choose(Pool(probs, lambda ids: every[ids]), strategy="diverse", count=12, rng=rng)
    assert {i // 30 for i in chosen.tolist()} == {0, 1, 2, 3}
