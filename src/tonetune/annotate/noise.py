"""Labels that a model disbelieves: confident learning on answers of models that had not seen the row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError, MissingExtraError
from tonetune.evaluation.baselines import tfidf_probabilities

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOW = {"filter_by": "low_normalized_margin", "n_jobs": 1}
"""Of cleanlab's filters the one whose list holds fewest right labels (docs/lab.md)."""

# N = texts, C = labels


@dataclass(frozen=True)
class Doubt:
    """A row whose label is probably wrong: its index, the label that fits better, and how well the given one fits."""

    row: int
    suggested: int
    score: float


def out_of_fold(
    texts: Sequence[str], gold_N: Ints, *, num_labels: int, language: str, folds: int, rng: np.random.Generator
) -> Floats:
    """Probabilities of each text by TF-IDF and logistic regression trained on the other folds, shape (N, C).

    Raises DataError where a label has too few texts to be in two folds.
    """
    from sklearn.model_selection import StratifiedKFold

    least = int(np.bincount(gold_N, minlength=num_labels).min())
    if least < 2:
        raise DataError(
            f"a label has {least} texts; at least 2 are needed to judge one by the other",
            where="the labels",
            hint="add rows, or map it to another label under data.rename",
        )
    probs_NC = np.zeros((len(gold_N), num_labels))
    parts = StratifiedKFold(min(folds, least), shuffle=True, random_state=int(rng.integers(2**31)))
    for train, held_out in parts.split(gold_N, gold_N):
        probs_NC[held_out] = tfidf_probabilities(
            [texts[i] for i in train],
            gold_N[train],
            [texts[i] for i in held_out],
            num_labels=num_labels,
            language=language,
        )
    return probs_NC


def doubtful(gold_N: Ints, probs_NC: Floats) -> list[Doubt]:
    """Rows that confident learning takes for mislabelled, the worst first.

    How many they are estimates `cleanlab.filter.find_label_issues` (Northcutt et al., 2021) from the rows where the
    model is surer of another label than it usually is of that one; they are those where the given label falls behind
    most. `score` is the probability of the given label. Raises MissingExtraError without the extra `noise`.
    """
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        raise MissingExtraError("noise", needed_for="tonetune annotate noise") from None
    ranked = find_label_issues(gold_N, probs_NC, return_indices_ranked_by="self_confidence", **HOW)
    return [Doubt(int(i), int(probs_NC[i].argmax()), float(probs_NC[i, gold_N[i]])) for i in ranked]
