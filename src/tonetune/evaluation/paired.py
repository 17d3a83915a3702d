"""Two classifiers on the same texts: by how much one is better, and whether that is more than noise.

Array names carry their shape: N = texts, R = resamples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError
from tonetune.evaluation.multi_tally import MultiTally, resample_sets
from tonetune.evaluation.tally import Interval, Tally, middle_95, resample

SIGNIFICANT = 0.05
METRICS = ("accuracy", "macro_f1")
MULTI_METRICS = ("micro_f1", "macro_f1", "accuracy")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Paired:
    """How much better the second of two classifiers is than the first, by metric, on the same texts.

    `difference` and `ci95` are second less first, in fractions. `won` texts only the second labels rightly, `lost`
    ones only the first.
    """

    difference: dict[str, float]
    ci95: dict[str, Interval]
    p_value: dict[str, float]
    won: int
    lost: int

    def certain(self, metric: str) -> bool:
        """Whether the difference is larger than the noise, at the 5 % level."""
        return self.p_value[metric] < SIGNIFICANT

    def as_dict(self) -> dict[str, Any]:
        ci95 = {metric: list(ends) for metric, ends in self.ci95.items()}
        return {"difference": self.difference, "ci95": ci95, "p_value": self.p_value}


def paired(gold_N: Ints, first_N: Ints, second_N: Ints, *, num_labels: int, rng: np.random.Generator) -> Paired:
    """Compare two predictions of the same texts.

    Accuracy by McNemar's exact test: among the texts that one of the two gets right, does each get half? Macro-F1 by
    the bootstrap over texts, both predictions on the same resamples; the intervals of both differences are from there
    too. Raises DataError where there is no text.
    """
    _require_texts(len(gold_N))
    points = [Tally.of(gold_N, predicted_N, num_labels=num_labels) for predicted_N in (first_N, second_N)]
    drawn = resample(gold_N, [first_N, second_N], num_labels=num_labels, rng=rng)
    return _compared(METRICS, points, drawn, first_N == gold_N, second_N == gold_N)


def paired_sets(gold_NC: Bools, first_NC: Bools, second_NC: Bools, *, rng: np.random.Generator) -> Paired:
    """As `paired`, for texts of any number of labels: right is a text whose every label is; micro-F1 by bootstrap."""
    _require_texts(len(gold_NC))
    points = [MultiTally.of_sets(gold_NC, predicted_NC) for predicted_NC in (first_NC, second_NC)]
    drawn = resample_sets(gold_NC, [first_NC, second_NC], rng=rng)
    right = [(predicted_NC == gold_NC).all(axis=1) for predicted_NC in (first_NC, second_NC)]
    return _compared(MULTI_METRICS, points, drawn, *right)


def _compared(
    metrics: Sequence[str], points: Sequence[Tally], drawn: Sequence[Tally], first_right_N: Bools, second_right_N: Bools
) -> Paired:
    difference, ci95, p_value = {}, {}, {}
    for metric in metrics:
        before, after = (float(getattr(tally, metric)) for tally in points)
        before_R, after_R = (getattr(tally, metric) for tally in drawn)
        low, high = middle_95(after_R - before_R)
        difference[metric], ci95[metric] = after - before, (float(low), float(high))
        p_value[metric] = _bootstrap_p(after_R - before_R)
    won, lost = int((second_right_N & ~first_right_N).sum()), int((first_right_N & ~second_right_N).sum())
    p_value["accuracy"] = mcnemar(won, lost)
    return Paired(difference, ci95, p_value, won, lost)


def _require_texts(num_texts: int) -> None:
    if num_texts == 0:
        raise DataError("there is no text to compare on")


def mcnemar(won: int, lost: int) -> float:
    """Two-sided p-value of the exact test (McNemar, 1947): `won` of won + lost texts, were each a fair coin."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def _bootstrap_p(difference_R: Floats) -> float:
    """Two-sided p-value: twice the share of resamples on the far side of 0, the data themselves counted as one."""
    far = min((difference_R <= 0).sum(), (difference_R >= 0).sum())
    return min(1.0, 2 * float(far + 1) / (len(difference_R) + 1))
