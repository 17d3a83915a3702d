"""How good predictions are: accuracy, macro-F1 and their intervals, per-class numbers, and calibration error.

Array names carry their shape: N = texts, C = labels, K = non-empty cells of the confusion matrix, R = resamples.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError, ModelError

RESAMPLES = 5_000
BLOCK_COUNTS = 1 << 21  # counts drawn at once: 16 MiB, however many classes and cells there are
ECE_BINS = 15

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Metrics:
    """Results of one classifier on `n` texts; every number but `n` and the counts is a fraction.

    `per_label` has precision, recall, f1 and support (texts of that class) by label name.
    `confusion` counts texts, true classes as rows, both axes in the order of the label set.
    """

    accuracy: float
    accuracy_ci95: Interval
    macro_f1: float
    macro_f1_ci95: Interval
    n: int
    mcc: float
    per_label: dict[str, dict[str, float]]
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
        return {**asdict(self), **self.summary()}


def classification_metrics(
    gold_N: Ints, predicted_N: Ints, labels: Sequence[str], *, rng: np.random.Generator
) -> Metrics:
    """Metrics of predicted against true label indices, with 95 % bootstrap intervals over texts.

    Macro-F1 is the mean over every class of the label set; a class that is neither present nor predicted counts as 0
    (scikit-learn's `labels=…, zero_division=0`). MCC is the multi-class form of Gorodkin (2004), 0 where undefined.
    Raises DataError where there is no text.
    """
    point = point_metrics(gold_N, predicted_N, num_labels=len(labels))
    confusion_CC = confusion_matrix(gold_N, predicted_N, num_labels=len(labels))
    hits_C, gold_C, predicted_C = _counts(gold_N, predicted_N, num_labels=len(labels))
    accuracy_ci95, macro_f1_ci95 = _bootstrap_ci95(confusion_CC, rng)
    columns = zip(
        labels,
        _ratio(hits_C, predicted_C),
        _ratio(hits_C, gold_C),
        _f1(hits_C, gold_C, predicted_C),
        gold_C,
        strict=True,
    )
    return Metrics(
        accuracy=point["accuracy"],
        accuracy_ci95=accuracy_ci95,
        macro_f1=point["macro_f1"],
        macro_f1_ci95=macro_f1_ci95,
        n=len(gold_N),
        mcc=mcc(confusion_CC),
        per_label={
            label: {"precision": float(precision), "recall": float(recall), "f1": float(f1), "support": int(support)}
            for label, precision, recall, f1, support in columns
        },
        confusion=confusion_CC.tolist(),
    )


def point_metrics(gold_N: Ints, predicted_N: Ints, num_labels: int) -> dict[str, float]:
    """The keys "accuracy" and "macro_f1" of `classification_metrics` alone, cheap enough for every validation.

    Both are fractions. Raises DataError where there is no text.
    """
    if len(gold_N) == 0:
        raise DataError("there is no text to score", hint="a split needs at least one labelled row")
    hits_C, gold_C, predicted_C = _counts(gold_N, predicted_N, num_labels=num_labels)
    return {
        "accuracy": float(hits_C.sum() / len(gold_N)),
        "macro_f1": float(_f1(hits_C, gold_C, predicted_C).mean()),
    }


def _counts(gold_N: Ints, predicted_N: Ints, *, num_labels: int) -> tuple[Ints, Ints, Ints]:
    """Right, true and predicted texts of each class, shape (C,) each."""
    hits_C = np.bincount(gold_N[gold_N == predicted_N], minlength=num_labels)
    return hits_C, np.bincount(gold_N, minlength=num_labels), np.bincount(predicted_N, minlength=num_labels)


def confusion_matrix(gold_N: Ints, predicted_N: Ints, *, num_labels: int) -> Ints:
    """Counts of shape (C, C), true classes as rows."""
    cell_N = np.ravel_multi_index((gold_N, predicted_N), (num_labels, num_labels))
    return np.bincount(cell_N, minlength=num_labels**2).reshape(num_labels, num_labels)


def _bootstrap_ci95(confusion_CC: Ints, rng: np.random.Generator) -> tuple[Interval, Interval]:
    """Percentile intervals of accuracy and macro-F1 over resampled texts.

    Drawing N texts with replacement and counting them by confusion cell is N independent draws of a cell, each
    with probability count / N: a multinomial draw. Both metrics depend on the texts through these counts only, so
    resampling the counts gives the very distribution of the row bootstrap, at a cost that does not grow with N.
    An interval has no width where every text lands on the same side (all right or all wrong).
    The draws come in blocks, which changes none of them, and are summed by class with sparse matrices.
    """
    from scipy.sparse import csr_array

    num_texts, num_labels = int(confusion_CC.sum()), len(confusion_CC)
    gold_K, predicted_K = np.nonzero(confusion_CC)
    num_cells = len(gold_K)
    share_K = confusion_CC[gold_K, predicted_K] / num_texts
    right_K = np.flatnonzero(gold_K == predicted_K)

    def summed_by(class_K: Ints, cell_K: Ints) -> Any:
        """A matrix (K, C) that adds up the counts of these cells by class."""
        return csr_array((np.ones(len(cell_K)), (cell_K, class_K)), shape=(num_cells, num_labels))

    every_K = np.arange(num_cells)
    to_hits, to_gold, to_predicted = (
        summed_by(gold_K[right_K], right_K),
        summed_by(gold_K, every_K),
        summed_by(predicted_K, every_K),
    )
    accuracy_R, macro_f1_R = np.empty(RESAMPLES), np.empty(RESAMPLES)
    step = max(1, BLOCK_COUNTS // max(num_cells, num_labels))
    for begin in range(0, RESAMPLES, step):
        block = slice(begin, min(begin + step, RESAMPLES))
        counts_RK = rng.multinomial(num_texts, share_K, size=block.stop - begin).astype(np.float64)
        hits_RC = counts_RK @ to_hits
        accuracy_R[block] = hits_RC.sum(axis=1) / num_texts
        macro_f1_R[block] = _f1(hits_RC, counts_RK @ to_gold, counts_RK @ to_predicted).mean(axis=1)
    return _middle_95(accuracy_R), _middle_95(macro_f1_R)


def _middle_95(values_R: Floats) -> Interval:
    low, high = np.quantile(values_R, (0.025, 0.975))
    return float(low), float(high)


def _ratio(part: Ints | Floats, whole: Ints | Floats) -> Floats:
    """part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole != 0)


def _f1(hits: Ints | Floats, gold: Ints | Floats, predicted: Ints | Floats) -> Floats:
    """F1 per class from the counts of right, true and predicted texts of that class."""
    return _ratio(2 * hits, gold + predicted)


def mcc(confusion_CC: Ints | Floats) -> float:
    """Matthews correlation of a confusion matrix, true classes as rows; 0 where it is undefined."""
    counts_CC = confusion_CC.astype(np.float64)
    total, gold_C, predicted_C = counts_CC.sum(), counts_CC.sum(axis=1), counts_CC.sum(axis=0)
    covariance = counts_CC.trace() * total - gold_C @ predicted_C
    spread = np.sqrt((total**2 - gold_C @ gold_C) * (total**2 - predicted_C @ predicted_C))
    return float(covariance / spread) if spread > 0 else 0.0


def argmax_labels(scores_NC: NDArray[np.floating[Any]]) -> Ints:
    """Index of the best score of each text, shape (N,); the first of equal ones.

    Raises ModelError where a score is not a number, which argmax would otherwise take for the best.
    """
    broken_N = np.isnan(scores_NC).any(axis=1)
    if broken_N.any():
        raise ModelError(
            f"{int(broken_N.sum())} of {len(scores_NC)} texts have scores that are not numbers",
            hint="set model.dtype: float32",
        )
    best_N: Ints = scores_NC.argmax(axis=1)
    return best_N


def reliability_bins(probs_NC: Floats, gold_N: Ints) -> list[dict[str, float]]:
    """Mean confidence, accuracy and count of texts in each non-empty bin of top-label confidence.

    The bins are 15 of equal width, each closed on the right as in Guo et al. (2017).
    """
    confidence_N = probs_NC.max(axis=1)
    right_N = argmax_labels(probs_NC) == gold_N
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
    bins = reliability_bins(probs_NC, gold_N)
    return sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in bins) / len(gold_N)
