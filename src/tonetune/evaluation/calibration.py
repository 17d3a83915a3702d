"""From logits to probabilities that mean what they say: softmax and a temperature fitted on validation texts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError

TEMPERATURE_BOUNDS = (0.05, 20.0)

Floats = NDArray[np.float64]


def softmax(logits_NC: NDArray[np.floating[Any]], temperature: float) -> Floats:
    """Probabilities of shape (N, C) in float64, rows summing to 1; safe for logits of any size."""
    return np.exp(log_softmax(logits_NC, temperature))


def log_softmax(logits_NC: NDArray[np.floating[Any]], temperature: float) -> Floats:
    """Logarithms of `softmax`, shape (N, C) in float64: finite where the probabilities themselves vanish."""
    scaled_NC = np.asarray(logits_NC, dtype=np.float64) / temperature
    shifted_NC = scaled_NC - scaled_NC.max(axis=1, keepdims=True)
    log_softmax_NC: Floats = shifted_NC - np.log(np.exp(shifted_NC).sum(axis=1, keepdims=True))
    return log_softmax_NC


def fit_temperature(logits_NC: NDArray[np.floating[Any]], gold_N: NDArray[np.int64]) -> float:
    """The temperature in 0.05 to 20 that minimises the mean negative log-likelihood of the true labels.

    Temperature scaling of Guo et al. (2017). The likelihood has one peak in log T (it is log-concave in 1 / T), so a
    bounded search finds it. Dividing by T never changes which label is best. Where every text is already
    right, ever smaller temperatures fit ever better and the data cannot say which is true: the answer is then 1.
    Raises DataError where there is no text.
    """
    from scipy.optimize import minimize_scalar

    if len(gold_N) == 0:
        raise DataError("there is no text to calibrate on", hint="a validation split needs at least one row")
    rows_N = np.arange(len(gold_N))
    gold_logit_N = logits_NC[rows_N, gold_N]
    if (gold_logit_N == logits_NC.max(axis=1)).all():
        return 1.0

    def negative_log_likelihood(log_temperature: float) -> float:
        return -float(log_softmax(logits_NC, np.exp(log_temperature))[rows_N, gold_N].mean())

    best = minimize_scalar(negative_log_likelihood, bounds=np.log(TEMPERATURE_BOUNDS), method="bounded")
    return float(np.exp(best.x))
