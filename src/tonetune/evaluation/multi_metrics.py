"""How good predictions of any number of labels are: micro- and macro-F1, average precision, exact answers, calibration.

Array names carry their shape: N = texts, C = labels, R = resamples.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError
from tonetune.evaluation.metrics import bins_of, mean_gap
from tonetune.evaluation.multi_tally import (
    MultiTally,
    average_precision,
    mean_of_known,
    resample_precision,
    resample_sets,
)
from tonetune.evaluation.tally import Floats, middle_95

METRICS = ("micro_f1", "macro_f1", "accuracy")
"""Those that follow from the answers alone."""

Bools = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]


def multi_point_metrics(gold_NC: Bools, predicted_NC: Bools) -> dict[str, float]:
    """The fractions of `METRICS`. Raises DataError where there is no text."""
    _require_texts(gold_NC)
    tally = MultiTally.of_sets(gold_NC, predicted_NC)
    return {metric: float(getattr(tally, metric)) for metric in METRICS}


def multi_summary(
    gold_NC: Bools, predicted_NC: Bools, scores_NC: Scores, labels: Sequence[str], *, rng: np.random.Generator
) -> dict[str, Any]:
    """The numbers by which classifiers are compared, each with its 95 % bootstrap interval over texts, and `n`.

    `accuracy` is the share of texts that get exactly their labels, `average_precision` the mean over the labels that
    some text has. Raises DataError where there is no text.
    """
    return _measured(gold_NC, predicted_NC, scores_NC, labels, rng)[0]


def multi_metrics(
    gold_NC: Bools, predicted_NC: Bools, scores_NC: Scores, labels: Sequence[str], *, rng: np.random.Generator
) -> dict[str, Any]:
    """The summary as "tuned", and "per_label": precision, recall, F1 and average precision with intervals, and counts.

    `true_positives` and the other three count texts and add up to `n`; `support` is true positives and false negatives.
    Average precision is None for a label that no text has. "missed_for" counts texts, labels in their order on both
    axes: of row i and column j those that miss label i and get label j wrongly, and where i is j those that get it
    rightly; "missed_alone" and "added_alone" count misses and wrong labels of texts without one of the other kind.
    """
    tuned, per_label = _measured(gold_NC, predicted_NC, scores_NC, labels, rng)
    missed_NC, added_NC = gold_NC & ~predicted_NC, predicted_NC & ~gold_NC
    missed_for_CC = missed_NC.T.astype(np.int64) @ added_NC.astype(np.int64)
    np.fill_diagonal(missed_for_CC, (gold_NC & predicted_NC).sum(axis=0))
    return {
        "tuned": tuned,
        "per_label": per_label,
        "missed_for": missed_for_CC.tolist(),
        "missed_alone": missed_NC[~added_NC.any(axis=1)].sum(axis=0).tolist(),
        "added_alone": added_NC[~missed_NC.any(axis=1)].sum(axis=0).tolist(),
    }


def _measured(
    gold_NC: Bools, predicted_NC: Bools, scores_NC: Scores, labels: Sequence[str], rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any]]:
    _require_texts(gold_NC)
    tally = MultiTally.of_sets(gold_NC, predicted_NC)
    (drawn,) = resample_sets(gold_NC, [predicted_NC], rng=rng)
    num_texts = len(gold_NC)
    precision_C = average_precision(gold_NC, scores_NC, np.ones(num_texts))
    precision_RC = resample_precision(gold_NC, scores_NC, rng=rng)
    tuned: dict[str, Any] = {}
    for metric in METRICS:
        tuned[metric] = float(getattr(tally, metric))
        tuned[f"{metric}_ci95"] = [float(end) for end in middle_95(getattr(drawn, metric))]
    tuned["average_precision"] = float(mean_of_known(precision_C))
    tuned["average_precision_ci95"] = [float(end) for end in middle_95(mean_of_known(precision_RC))]
    columns: dict[str, list[Any]] = {}
    for name in ("precision", "recall", "f1"):
        columns[name] = getattr(tally, name).tolist()
        columns[f"{name}_ci95"] = _pairs(*middle_95(getattr(drawn, name)))
    columns["average_precision"] = [None if np.isnan(value) else float(value) for value in precision_C]
    columns["average_precision_ci95"] = [
        None if np.isnan(value) else ends
        for value, ends in zip(precision_C, _pairs(*_known_95(precision_RC)), strict=True)
    ]
    columns["support"] = tally.gold_C.tolist()
    columns |= _four_counts(tally)
    rows = zip(labels, *columns.values(), strict=True)
    return {**tuned, "n": num_texts}, {label: dict(zip(columns, row, strict=True)) for label, *row in rows}


def _four_counts(tally: MultiTally) -> dict[str, list[int]]:
    hits_C, gold_C, predicted_C = tally.hits_C, tally.gold_C, tally.predicted_C
    return {
        "true_positives": hits_C.tolist(),
        "false_positives": (predicted_C - hits_C).tolist(),
        "false_negatives": (gold_C - hits_C).tolist(),
        "true_negatives": (tally.num_texts - gold_C - predicted_C + hits_C).tolist(),
    }


def _known_95(precision_RC: Floats) -> tuple[Floats, Floats]:
    """As `middle_95`, over the resamples in which a label has a true text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a label of no text at all: its interval is not used
        low, high = np.nanquantile(precision_RC, (0.025, 0.975), axis=0)
    return low, high


def _pairs(low_C: Floats, high_C: Floats) -> list[list[float]]:
    return [[float(low), float(high)] for low, high in zip(low_C, high_C, strict=True)]


def multi_reliability_bins(probs_NC: Floats, gold_NC: Bools) -> list[dict[str, float]]:
    """Mean probability, share that is true and count of the pairs of text and label in each non-empty bin.

    15 bins of equal width, closed on the right, as `metrics.reliability_bins` has of top labels.
    """
    return bins_of(probs_NC.ravel(), gold_NC.ravel())


def multi_calibration_error(probs_NC: Floats, gold_NC: Bools) -> float:
    """Gap between the probability of a label and how often it is true, over all pairs of a text and a label.

    The expected calibration error of these binary questions, in 15 bins weighted by their pairs.
    """
    return mean_gap(multi_reliability_bins(probs_NC, gold_NC))


def _require_texts(gold_NC: Bools) -> None:
    if len(gold_NC) == 0:
        raise DataError("there is no text to score", hint="a split needs at least one labelled row")
