"""Two classifiers on the same texts: by how much one is better, and whether that is more than noise.

Array names carry their shape: N = texts, R = resamples.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError
from tonetune.evaluation.tally import Interval, Tally, middle_95, resample

SIGNIFICANT = 0.05
METRICS = ("accuracy", "macro_f1")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
    if len(gold_N) == 0:
        raise DataError("there is no text to compare on")
    points = [Tally.of(gold_N, predicted_N, num_labels=num_labels) for predicted_N in (first_N, second_N)]
    drawn = resample(gold_N, [first_N, second_N], num_labels=num_labels, rng=rng)
    difference, ci95, p_value = {}, {}, {}
    for metric in METRICS:
        before, after = (float(getattr(tally, metric)) for tally in points)
        before_R, after_R = (getattr(tally, metric) for tally in drawn)
        low, high = middle_95(after_R - before_R)
        difference[metric], ci95[metric] = after - before, (float(low), float(high))
        p_value[metric] = _bootstrap_p(after_R - before_R)
    won = int(((second_N == gold_N) & (first_N != gold_N)).sum())
    lost = int(((first_N == gold_N) & (second_N != gold_N)).sum())
    p_value["accuracy"] = mcnemar(won, lost)
    return Paired(difference, ci95, p_value, won, lost)


def mcnemar(won: int, lost: int) -> float:
    """Two-sided p-value of the exact test (McNemar, 1947): `won` of won + lost texts, were each a fair coin."""
    from scipy.stats import binomtest

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def _bootstrap_p(difference_R: Floats) -> float:
    """Two-sided p-value: twice the share of resamples on the far side of 0, the data themselves counted as one."""
    far = min((difference_R <= 0).sum(), (difference_R >= 0).sum())
    return min(1.0, 2 * float(far + 1) / (len(difference_R) + 1))
