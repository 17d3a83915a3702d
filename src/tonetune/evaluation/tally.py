"""The counts on which every metric of a classifier rests, of all texts or of resampled ones.

Array names carry their shape: N = texts, C = labels, K = kinds of text, R = resamples; "X" is R, or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 5_000
BLOCK_COUNTS = 1 << 21  # counts drawn at once: 16 MiB, however many classes and kinds there are

BOOTSTRAP_SEED = 0
"""Intervals are resampled from this seed always, so that equal predictions have equal intervals in any run."""

Numbers = NDArray[Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Tally:
    """Right (`hits_C`), true and predicted texts of each class, each (C,), or (R, C) for R resamples.

    Every metric has the shape that is left: one number, or one for each resample. A ratio of 0 / 0 is 0.
    """

    hits_C: Numbers
    gold_C: Numbers
    predicted_C: Numbers

    @classmethod
    def of(cls, gold_N: Ints, predicted_N: Ints, *, num_labels: int) -> "Tally":
        right_N = gold_N[gold_N == predicted_N]
        return cls(*(np.bincount(part, minlength=num_labels) for part in (right_N, gold_N, predicted_N)))

    @classmethod
    def of_matrix(cls, confusion_CC: Numbers) -> "Tally":
        """The counts of a confusion matrix, true classes as rows."""
        return cls(confusion_CC.diagonal(), confusion_CC.sum(axis=1), confusion_CC.sum(axis=0))

    @property
    def accuracy(self) -> Floats:
        return ratio(self.hits_C.sum(axis=-1), self.gold_C.sum(axis=-1))

    @property
    def precision(self) -> Floats:
        return ratio(self.hits_C, self.predicted_C)

    @property
    def recall(self) -> Floats:
        return ratio(self.hits_C, self.gold_C)

    @property
    def f1(self) -> Floats:
        return ratio(2 * self.hits_C, self.gold_C + self.predicted_C)

    @property
    def macro_f1(self) -> Floats:
        mean_X: Floats = self.f1.mean(axis=-1)
        return mean_X

    @property
    def mcc(self) -> Floats:
        """Matthews correlation in the multi-class form of Gorodkin (2004); 0 where it is undefined."""
        hits_X, total_X = (part.sum(axis=-1, dtype=np.float64) for part in (self.hits_C, self.gold_C))
        both_X, gold_X, predicted_X = (
            np.einsum("...c,...c->...", one, other, dtype=np.float64)
            for one, other in (
                (self.gold_C, self.predicted_C),
                (self.gold_C, self.gold_C),
                (self.predicted_C, self.predicted_C),
            )
        )
        spread_X = np.sqrt((total_X**2 - gold_X) * (total_X**2 - predicted_X))
        return ratio(hits_X * total_X - both_X, spread_X)


def resample(gold_N: Ints, predictions: Sequence[Ints], *, num_labels: int, rng: np.random.Generator) -> list[Tally]:
    """Tallies (R, C) of each of several predictions over the same resamples of the texts.

    Texts of one true class with the same answers are of one kind. Drawing N texts with replacement and counting them by
    kind is N independent draws of a kind, each with probability count / N: a multinomial draw. Metrics depend on the
    texts through these counts alone, so resampling the counts gives the very distribution of the bootstrap over rows,
    at a cost that does not grow with N. The draws come in blocks, which changes none of them, and are summed by class
    with sparse matrices.
    """
    from scipy.sparse import csr_array, hstack

    kinds_KJ, counts_K = np.unique(np.stack([gold_N, *predictions], axis=1), axis=0, return_counts=True)
    gold_K, *predicted = kinds_KJ.T
    every_K = np.arange(len(counts_K))

    def summed_by(class_K: Ints, kind_K: Ints) -> Any:
        """A matrix (K, C) that adds up the counts of these kinds by class."""
        return csr_array((np.ones(len(kind_K)), (kind_K, class_K)), shape=(len(counts_K), num_labels))

    sums = [summed_by(gold_K, every_K)]
    for predicted_K in predicted:
        right_K = np.flatnonzero(gold_K == predicted_K)
        sums += [summed_by(gold_K[right_K], right_K), summed_by(predicted_K, every_K)]
    by_class = hstack(sums, format="csr")
    drawn = np.empty((RESAMPLES, by_class.shape[1]), dtype=np.int32)
    step = max(1, BLOCK_COUNTS // max(by_class.shape))
    for begin in range(0, RESAMPLES, step):
        block = slice(begin, min(begin + step, RESAMPLES))
        drawn[block] = rng.multinomial(len(gold_N), counts_K / len(gold_N), size=block.stop - begin) @ by_class
    gold_RC, *parts = np.split(drawn, len(sums), axis=1)
    return [
        Tally(hits_RC, gold_RC, predicted_RC) for hits_RC, predicted_RC in zip(parts[::2], parts[1::2], strict=True)
    ]


def middle_95(values: Floats) -> tuple[Floats, Floats]:
    """The 2.5 % and 97.5 % quantiles over the first axis."""
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    return low, high


def ratio(part: Numbers, whole: Numbers) -> Floats:
    """part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole != 0)
