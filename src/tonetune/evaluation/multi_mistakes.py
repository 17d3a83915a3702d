"""Where a classifier of any number of labels errs: what it misses and adds, and for what.

Array names carry their shape: N = texts, C = labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.evaluation.mistakes import CONFIDENT_LISTED, PAIRS_LISTED, SURE, slices_of, what_to_collect

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def multi_mistakes(
    texts: Sequence[str],
    gold_NC: Bools,
    predicted_NC: Bools,
    confidence_N: Floats,
    truncated_N: Bools,
    labels: Sequence[str],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """The document "mistakes" of a report: as `mistakes.mistakes`, a text being right where every label is.

    Of a pair "gold" was missed and "label" given wrongly; one of them is None where nothing stands against it. Slices
    have the share of texts with exactly their labels. `metrics` are those of `multi_metrics`.
    """
    right_N = (gold_NC == predicted_NC).all(axis=1)
    count = int((~right_N).sum())
    pairs = _pairs(metrics, labels, count)
    slices = [*slices_of(texts, right_N, truncated_N)]
    surest = [i for i in np.argsort(-confidence_N, kind="stable").tolist() if not right_N[i]]
    confident = [
        {
            "text": texts[i],
            "gold": names(gold_NC[i], labels),
            "labels": names(predicted_NC[i], labels),
            "confidence": float(confidence_N[i]),
        }
        for i in surest[:CONFIDENT_LISTED]
    ]
    support = {label: row["support"] for label, row in metrics["per_label"].items()}
    num_sure = int((confidence_N[~right_N] >= SURE).sum())
    collect = [*what_to_collect(pairs, slices, support, num_sure)]
    return {"count": count, "pairs": pairs, "slices": slices, "confident": confident, "collect": collect}


def names(true_C: Bools, labels: Sequence[str]) -> list[str]:
    """The labels that are true, in their order."""
    return [label for label, true in zip(labels, true_C.tolist(), strict=True) if true]


def _pairs(metrics: Mapping[str, Any], labels: Sequence[str], num_wrong: int) -> list[dict[str, Any]]:
    """The commonest misses and wrong labels, together where a text has both, else alone."""
    found: list[tuple[str | None, str | None, int]] = []
    for i, label in enumerate(labels):
        found += [(label, labels[j], n) for j, n in enumerate(metrics["missed_for"][i]) if i != j]
        found += [(label, None, metrics["missed_alone"][i]), (None, label, metrics["added_alone"][i])]
    found.sort(key=lambda pair: -pair[2])
    return [
        {"gold": gold, "label": label, "count": count, "share": count / num_wrong}
        for gold, label, count in found[:PAIRS_LISTED]
        if count
    ]
