"""The counts on which every metric of a multi-label classifier rests, of all texts or of resampled ones.

Array names carry their shape: N = texts, C = labels, K = kinds of text, R = resamples; "X" is R, or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonetune.evaluation.tally import BLOCK_COUNTS, RESAMPLES, Floats, Numbers, Tally, ratio

PRECISION_RESAMPLES = 500
"""Average precision needs the order of the texts in every resample, so it takes fewer of them."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class MultiTally(Tally):
    """As `Tally`, for texts of any number of labels; `exact_X` counts texts whose every label is right, of `num_texts`.

    Precision, recall, F1 and macro-F1 are those of `Tally`: each label is a class of its own.
    """

    exact_X: Numbers
    num_texts: int

    @classmethod
    def of_sets(cls, gold_NC: Bools, predicted_NC: Bools) -> "MultiTally":
        hits_C = (gold_NC & predicted_NC).sum(axis=0)
        exact = (gold_NC == predicted_NC).all(axis=1).sum()
        return cls(hits_C, gold_NC.sum(axis=0), predicted_NC.sum(axis=0), exact, len(gold_NC))

    @property
    def accuracy(self) -> Floats:
        """Share of texts that get exactly their labels, as scikit-learn's `accuracy_score` counts it."""
        return ratio(self.exact_X, np.full(np.shape(self.exact_X), self.num_texts))

    @property
    def micro_f1(self) -> Floats:
        """F1 over all pairs of a text and a label."""
        both_X = self.gold_C.sum(axis=-1) + self.predicted_C.sum(axis=-1)
        return ratio(2 * self.hits_C.sum(axis=-1), both_X)


def resample_sets(gold_NC: Bools, predictions: Sequence[Bools], *, rng: np.random.Generator) -> list[MultiTally]:
    """Tallies (R, C) of each of several predictions over the same resamples of the texts.

    Texts of the same true labels and the same answers are of one kind, and kinds are drawn by a multinomial, as
    `tally.resample` does and says.
    """
    kinds_KJ, counts_K = np.unique(np.hstack([gold_NC, *predictions]), axis=0, return_counts=True)
    gold_KC, *predicted = np.split(kinds_KJ, 1 + len(predictions), axis=1)
    columns = [gold_KC]
    for predicted_KC in predicted:
        exact_K1 = (gold_KC == predicted_KC).all(axis=1, keepdims=True)
        columns += [gold_KC & predicted_KC, predicted_KC, exact_K1]
    summed_KJ = np.hstack(columns).astype(np.float64)
    drawn = np.empty((RESAMPLES, summed_KJ.shape[1]))
    step = max(1, BLOCK_COUNTS // max(summed_KJ.shape))
    for begin in range(0, RESAMPLES, step):
        block = slice(begin, min(begin + step, RESAMPLES))
        drawn[block] = rng.multinomial(len(gold_NC), counts_K / len(gold_NC), size=block.stop - begin) @ summed_KJ
    num_labels = gold_NC.shape[1]
    gold_RC, rest = drawn[:, :num_labels], drawn[:, num_labels:]
    parts = np.split(rest, len(predictions), axis=1)
    return [
        MultiTally(part[:, :num_labels], gold_RC, part[:, num_labels:-1], part[:, -1], len(gold_NC)) for part in parts
    ]


def average_precision(gold_NC: Bools, scores_NC: Numbers, weights_XN: Numbers) -> Floats:
    """Average precision of each label, shape (X, C), of texts that count `weights_XN` times; NaN without a true text.

    The sum over cuts of precision times the gain in recall, equal scores cut together, as scikit-learn's
    `average_precision_score` computes it.
    """
    found = [
        _one_precision(gold_N, scores_N, weights_XN) for gold_N, scores_N in zip(gold_NC.T, scores_NC.T, strict=True)
    ]
    return np.stack(found, axis=-1)


def mean_precision(gold_NC: Bools, scores_NC: Numbers) -> float:
    """Average precision, averaged over the labels that some text has; 0 where none has one."""
    return float(mean_of_known(average_precision(gold_NC, scores_NC, np.ones(len(gold_NC)))))


def mean_of_known(precision_XC: Floats) -> Floats:
    """The mean over labels, those without a true text left out; 0 where none has one."""
    known_XC = ~np.isnan(precision_XC)
    sums_X = np.where(known_XC, precision_XC, 0.0).sum(axis=-1)
    means_X: Floats = sums_X / np.maximum(known_XC.sum(axis=-1), 1)
    return means_X


def _one_precision(gold_N: Bools, scores_N: Numbers, weights_XN: Numbers) -> Floats:
    order_N = np.argsort(-scores_N, kind="stable")
    falling_N = scores_N[order_N]
    last = np.append(np.flatnonzero(falling_N[:-1] > falling_N[1:]), len(falling_N) - 1)
    ranked_XN = weights_XN[..., order_N]
    above_XN = np.cumsum(ranked_XN, axis=-1)[..., last]
    hits_XN = np.cumsum(ranked_XN * gold_N[order_N], axis=-1)[..., last]
    gained_XN = np.diff(hits_XN, axis=-1, prepend=0)
    summed_X = (gained_XN * ratio(hits_XN, above_XN)).sum(axis=-1)
    true_X = hits_XN[..., -1]
    found_X: Floats = np.divide(summed_X, true_X, out=np.full(np.shape(summed_X), np.nan), where=true_X > 0)
    return found_X


def resample_precision(gold_NC: Bools, scores_NC: Numbers, *, rng: np.random.Generator) -> Floats:
    """Average precision of each label over `PRECISION_RESAMPLES` resamples of the texts, shape (R, C), as above."""
    num_texts = len(gold_NC)
    share_N = np.full(num_texts, 1 / num_texts)
    step = max(1, BLOCK_COUNTS // num_texts)
    sizes = [min(step, PRECISION_RESAMPLES - begin) for begin in range(0, PRECISION_RESAMPLES, step)]
    drawn = (rng.multinomial(num_texts, share_N, size=size) for size in sizes)
    return np.concatenate([average_precision(gold_NC, scores_NC, weights_BN) for weights_BN in drawn])
