"""Weights of classes in the loss, from the training labels alone."""

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import ConfigError

# N = training texts, C = labels


def balanced(gold_N: NDArray[np.int64], num_labels: int) -> tuple[float, ...]:
    """N over (classes that occur times texts of the class) for each class, zero for one that does not occur.

    As scikit-learn's `class_weight="balanced"`: every class has the same share of the loss, and the mean weight of a
    training text is one, so that the learning rate keeps its meaning. Raises ConfigError for texts of several labels.
    """
    if gold_N.ndim != 1:
        raise ConfigError(
            ["class weights need texts of one label each"],
            where="train.class_weights",
            hint="train.class_weights: none",
        )
    counts_C = np.bincount(gold_N, minlength=num_labels)
    share = len(gold_N) / int(np.count_nonzero(counts_C))
    return tuple(share / count if count else 0.0 for count in counts_C.tolist())
