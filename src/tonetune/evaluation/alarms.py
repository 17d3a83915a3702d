"""Alarms that a confusion matrix raises by itself: labels in another order, and answers that collapse on few classes.

Array names carry their shape: C = classes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tonetune.evaluation.label_order import better_names

COLLAPSED_SHARE = 0.25
"""Answers are collapsed where they spread over less than this share of the classes that the texts spread over."""

Counts = NDArray[np.int64]


class Alarm(NamedTuple):
    """A fault that the numbers show: a code for scripts, what is seen, and what to look at."""

    code: str
    what: str
    advice: str


def alarms(confusion_CC: Counts, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Alarms of a confusion matrix, true classes as rows, as documents with "code", "what" and "advice"."""
    found = _collapsed(confusion_CC, labels) or _permuted(confusion_CC, labels)
    return [found._asdict()] if found else []


def _collapsed(confusion_CC: Counts, labels: Sequence[str]) -> Alarm | None:
    """Nearly all answers are one class, which accuracy hides where most texts are of that class."""
    texts_C, answers_C = confusion_CC.sum(axis=1), confusion_CC.sum(axis=0)
    if _spread(answers_C) >= COLLAPSED_SHARE * _spread(texts_C):
        return None
    most = int(answers_C.argmax())
    total = confusion_CC.sum()
    answers, texts = answers_C[most] / total, texts_C[most] / total
    what = f"{answers:.0%} of the answers are {labels[most]!r}, the label of {texts:.0%} of the texts"
    return Alarm("collapsed", what, "train longer or with another train.learning_rate, and judge by macro-F1")


def _spread(counts_C: Counts) -> float:
    """Over how many classes beside one the counts are spread: exp of their entropy, less 1."""
    share_C = counts_C[counts_C > 0] / counts_C.sum()
    return float(np.exp(-(share_C * np.log(share_C)).sum()) - 1)


def _permuted(confusion_CC: Counts, labels: Sequence[str]) -> Alarm | None:
    names = better_names(confusion_CC.tolist(), labels)
    if names is None:
        return None
    index = {label: c for c, label in enumerate(labels)}
    renamed = confusion_CC[[index[names.get(label, label)] for label in labels], range(len(labels))]
    right, better = (cells.sum() / confusion_CC.sum() for cells in (confusion_CC.diagonal(), renamed))
    pairs = ", ".join(f"{name} as {meant}" for name, meant in names.items())
    what = f"most answers would be right under other names, {pairs}: {better:.1%} instead of {right:.1%}"
    return Alarm("permuted_labels", what, "compare the order of labels in the data, the adapter and where it runs")
