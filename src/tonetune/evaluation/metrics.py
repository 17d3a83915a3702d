"""How good predictions are: accuracy, macro-F1 and their intervals, per-class numbers, and calibration error.

Array names carry their shape: N = texts, C = labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError, ModelError
from tonetune.evaluation.tally import Interval, Tally, middle_95, resample

ECE_BINS = 15

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Metrics:
    """Results of one classifier on `n` texts; every number but `n`, MCC and the counts is a fraction.

    `per_label` has precision, recall and f1, each with its interval (`f1_ci95`), and support (texts of that class) by
    label name. `confusion` counts texts, true classes as rows, both axes in the order of the label set.
    """

    accuracy: float
    accuracy_ci95: Interval
    macro_f1: float
    macro_f1_ci95: Interval
    n: int
    mcc: float
    mcc_ci95: Interval
    per_label: dict[str, dict[str, Any]]
    confusion: list[list[int]]

    def summary(self) -> dict[str, Any]:
        """The five numbers by which classifiers are compared."""
        return {
            "accuracy": self.accuracy,
            "accuracy_ci95": list(self.accuracy_ci95),
            "macro_f1": self.macro_f1,
            "macro_f1_ci95": list(self.macro_f1_ci95),
            "n": self.n,
        }

    def as_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON."""
        return {**asdict(self), **self.summary(), "mcc_ci95": list(self.mcc_ci95)}


def classification_metrics(
    gold_N: Ints, predicted_N: Ints, labels: Sequence[str], *, rng: np.random.Generator
) -> Metrics:
    """Metrics of predicted against true label indices, with 95 % bootstrap intervals over texts.

    Macro-F1 is the mean over every class of the label set; a class that is neither present nor predicted counts as 0
    (scikit-learn's `labels=…, zero_division=0`). Raises DataError where there is no text.
    """
    tally = _tally(gold_N, predicted_N, len(labels))
    (drawn,) = resample(gold_N, [predicted_N], num_labels=len(labels), rng=rng)
    columns = {name: getattr(tally, name).tolist() for name in ("precision", "recall", "f1")}
    for name in ("precision", "recall", "f1"):
        columns[f"{name}_ci95"] = [list(ends) for ends in zip(*middle_95(getattr(drawn, name)), strict=True)]
    columns["support"] = tally.gold_C.tolist()
    return Metrics(
        accuracy=float(tally.accuracy),
        accuracy_ci95=_ends(drawn.accuracy),
        macro_f1=float(tally.macro_f1),
        macro_f1_ci95=_ends(drawn.macro_f1),
        n=len(gold_N),
        mcc=float(tally.mcc),
        mcc_ci95=_ends(drawn.mcc),
        per_label={
            label: dict(zip(columns, row, strict=True)) for label, *row in zip(labels, *columns.values(), strict=True)
        },
        confusion=confusion_matrix(gold_N, predicted_N, num_labels=len(labels)).tolist(),
    )


def point_metrics(gold_N: Ints, predicted_N: Ints, num_labels: int) -> dict[str, float]:
    """The keys "accuracy" and "macro_f1" of `classification_metrics` alone, cheap enough for every validation.

    Both are fractions. Raises DataError where there is no text.
    """
    tally = _tally(gold_N, predicted_N, num_labels)
    return {"accuracy": float(tally.accuracy), "macro_f1": float(tally.macro_f1)}


def _tally(gold_N: Ints, predicted_N: Ints, num_labels: int) -> Tally:
    if len(gold_N) == 0:
        raise DataError("there is no text to score", hint="a split needs at least one labelled row")
    return Tally.of(gold_N, predicted_N, num_labels=num_labels)


def _ends(values_R: Floats) -> Interval:
    low, high = middle_95(values_R)
    return float(low), float(high)


def confusion_matrix(gold_N: Ints, predicted_N: Ints, *, num_labels: int) -> Ints:
    """Counts of shape (C, C), true classes as rows."""
    cell_N = np.ravel_multi_index((gold_N, predicted_N), (num_labels, num_labels))
    return np.bincount(cell_N, minlength=num_labels**2).reshape(num_labels, num_labels)


def argmax_labels(scores_NC: NDArray[np.floating[Any]]) -> Ints:
    """Index of the best score of each text, shape (N,); the first of equal ones.

    Raises ModelError where a score is not a number, which argmax would otherwise take for the best.
    """
    require_numbers(scores_NC)
    best_N: Ints = scores_NC.argmax(axis=1)
    return best_N


def require_numbers(scores_NC: NDArray[np.floating[Any]]) -> None:
    """Raises ModelError where a score is not a number."""
    broken_N = np.isnan(scores_NC).any(axis=1)
    if broken_N.any():
        raise ModelError(
            f"{int(broken_N.sum())} of {len(scores_NC)} texts have scores that are not numbers",
            hint="set model.dtype: float32",
        )


def reliability_bins(probs_NC: Floats, gold_N: Ints) -> list[dict[str, float]]:
    """Mean confidence, accuracy and count of texts in each non-empty bin of top-label confidence.

    The bins are 15 of equal width, each closed on the right as in Guo et al. (2017).
    """
    return bins_of(probs_NC.max(axis=1), argmax_labels(probs_NC) == gold_N)


def bins_of(confidence_N: Floats, right_N: NDArray[np.bool_]) -> list[dict[str, float]]:
    """As `reliability_bins`, of any answers of which each is right or wrong."""
    bin_N = np.clip(np.ceil(confidence_N * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    return [
        {
            "confidence": float(confidence_N[bin_N == b].mean()),
            "accuracy": float(right_N[bin_N == b].mean()),
            "count": int((bin_N == b).sum()),
        }
        for b in np.unique(bin_N)
    ]


def expected_calibration_error(probs_NC: Floats, gold_N: Ints) -> float:
    """Gap between top-label confidence and accuracy, averaged over 15 equal-width bins weighted by their texts.

    Guo et al. (2017), "On Calibration of Modern Neural Networks", equation 3. Raises DataError where there is no text.
    """
    if len(gold_N) == 0:
        raise DataError("there is no text to calibrate on", hint="a split needs at least one labelled row")
    return mean_gap(reliability_bins(probs_NC, gold_N))


def mean_gap(bins: Sequence[Mapping[str, float]]) -> float:
    """Mean distance between confidence and accuracy of reliability bins, weighted by their counts."""
    total = sum(b["count"] for b in bins)
    return sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in bins) / total
