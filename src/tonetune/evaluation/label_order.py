"""Whether a classifier's labels are another's in a different order: right answers under wrong names."""

from collections.abc import Sequence

import numpy as np

FEW_ROWS = 10
"""A gain of fewer rows than this is chance."""


def better_names(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> dict[str, str] | None:
    """What labels seem to be called in the data, where that is not their own name; None without suspicion.

    The renaming that makes the most rows right (an assignment over the confusion matrix, true classes as rows) is
    suspected where it makes more than half of the rows of the renamed classes right, and more than twice as many of
    them as their own names do.
    """
    from scipy.optimize import linear_sum_assignment

    counts_CC = np.asarray(confusion, dtype=np.int64)
    true_C, predicted_C = linear_sum_assignment(-counts_CC)
    moved_C = true_C != predicted_C
    renamed = int(counts_CC[true_C, predicted_C][moved_C].sum())
    as_they_are, rows = int(np.diag(counts_CC)[moved_C].sum()), int(counts_CC[moved_C].sum())
    if renamed < max(2 * as_they_are, rows / 2) or renamed - as_they_are < FEW_ROWS:
        return None
    return {labels[p]: labels[t] for t, p in zip(true_C[moved_C], predicted_C[moved_C], strict=True)}
