"""What to label next: the texts a model is least sure of, or a spread of them, or any."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# N = texts of the pool, C = labels, D = hidden width, K = texts chosen

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

CANDIDATES = 10
"""Times as many unsure texts as asked for, among which the diverse strategy spreads its choice."""


@dataclass(frozen=True)
class Pool:
    """What a strategy may look at: probabilities, shape (N, C), and hidden states of chosen texts, shape (K, D)."""

    probs_NC: Floats
    embed: Callable[[Ids], NDArray[np.float32]]


def entropy(probs_NC: Floats) -> Floats:
    """Shannon entropy of each text's probabilities in nats, shape (N,)."""
    from scipy.special import entr

    result: Floats = entr(probs_NC).sum(axis=1)
    return result


def margin(probs_NC: Floats) -> Floats:
    """The lead of the most probable label over the next one, shape (N,)."""
    ordered_NC = np.sort(probs_NC, axis=1)
    return ordered_NC[:, -1] - ordered_NC[:, -2]


def _by_entropy(pool: Pool, count: int, rng: np.random.Generator) -> Ids:
    return np.argsort(-entropy(pool.probs_NC), kind="stable")[:count]


def _by_margin(pool: Pool, count: int, rng: np.random.Generator) -> Ids:
    return np.argsort(margin(pool.probs_NC), kind="stable")[:count]


def _diverse(pool: Pool, count: int, rng: np.random.Generator) -> Ids:
    """Texts of small margin that are far from each other: the seeding of k-means++ among their hidden states.

    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding" (2007), on directions of unit length.
    """
    from sklearn.cluster import kmeans_plusplus

    candidates = _by_margin(pool, CANDIDATES * count, rng)
    if len(candidates) <= count:
        return candidates
    states_KD = pool.embed(candidates).astype(np.float64)
    states_KD /= np.linalg.norm(states_KD, axis=1, keepdims=True)
    _, chosen = kmeans_plusplus(states_KD, count, random_state=int(rng.integers(2**31)))
    spread: Ids = candidates[np.unique(chosen)]
    return spread


def _random(pool: Pool, count: int, rng: np.random.Generator) -> Ids:
    return rng.permutation(len(pool.probs_NC))[:count]


STRATEGIES: Mapping[str, Callable[[Pool, int, np.random.Generator], Ids]] = {
    "entropy": _by_entropy,
    "margin": _by_margin,
    "diverse": _diverse,
    "random": _random,
}


def choose(pool: Pool, *, strategy: str, count: int, rng: np.random.Generator) -> Ids:
    """Positions of up to `count` texts to label next, the most urgent first, by a name in STRATEGIES."""
    return STRATEGIES[strategy](pool, count, rng)
