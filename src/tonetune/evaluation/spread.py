"""Several seeds of one config: the mean of a metric, its range, and what the mean would be over all seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, range and t-interval of the mean over at least two seeds, ready for JSON.

    The interval is about the luck of the seed on these test texts; that of each run is about the choice of the texts.
    """
    from scipy.stats import sem, t

    mean, half = float(np.mean(values)), float(t.ppf(0.975, len(values) - 1) * sem(values))
    return {"mean": mean, "range": [min(values), max(values)], "ci95": [mean - half, mean + half]}
