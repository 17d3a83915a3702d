"""Where a label's score becomes a yes: one cut for each label, fitted on validation texts.

Array names carry their shape: N = texts, C = labels.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError

TRUSTED_POSITIVES = 20
"""A label's own best cut and the cut shared by all weigh alike where it has so many validation texts."""

Scores = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def fit_cuts(scores_NC: Scores, gold_NC: Bools) -> Floats:
    """The cut of each label, shape (C,): a text has the labels whose scores are above their cuts.

    The best cut of a label, by F1, is drawn towards the one cut that is best for all labels together, by micro-F1: of
    few texts the best cut is mostly luck. With n texts of the label its own cut weighs n / (n + 20), and nothing where
    n is 0. Raises DataError where there is no text.
    """
    if len(gold_NC) == 0:
        raise DataError("there is no text to fit thresholds on", hint="a validation split needs at least one row")
    wide_NC: Floats = np.asarray(scores_NC, dtype=np.float64)
    shared = best_cut(wide_NC.ravel(), gold_NC.ravel(), near=0.0)
    own_C = np.array([best_cut(wide_NC[:, c], gold_NC[:, c], near=shared) for c in range(wide_NC.shape[1])])
    texts_C = gold_NC.sum(axis=0)
    trust_C = texts_C / (texts_C + TRUSTED_POSITIVES)
    cuts_C: Floats = trust_C * own_C + (1 - trust_C) * shared
    return cuts_C


def best_cut(scores_N: Floats, gold_N: Bools, *, near: float) -> float:
    """The cut with the greatest F1, halfway between two scores; of equal ones, and without a true text, that `near`."""
    if not gold_N.any():
        return near
    order_N = np.argsort(-scores_N, kind="stable")
    falling_N = scores_N[order_N]
    last = np.append(np.flatnonzero(falling_N[:-1] > falling_N[1:]), len(falling_N) - 1)
    hits = np.cumsum(gold_N[order_N])[last]
    f1 = 2 * hits / (last + 1 + gold_N.sum())
    below = np.append(falling_N[last[:-1] + 1], falling_N[-1] - 2.0)
    cuts = ((falling_N[last] + below) / 2)[f1 == f1.max()]
    return float(cuts[np.abs(cuts - near).argmin()])
