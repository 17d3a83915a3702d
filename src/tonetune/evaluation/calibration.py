"""From logits to probabilities that mean what they say: softmax or sigmoid, and a temperature from validation texts."""

from collections.abc import Callable
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


def sigmoid(logits_NC: NDArray[np.floating[Any]], temperature: float) -> Floats:
    """The probability of each label by itself, of the logits' shape, in float64; safe for logits of any size."""
    scaled_NC = np.asarray(logits_NC, dtype=np.float64) / temperature
    probs_NC: Floats = np.exp(-np.logaddexp(0.0, -scaled_NC))
    return probs_NC


def binary_loss(logits_NC: NDArray[np.floating[Any]], gold_NC: NDArray[np.bool_], temperature: float) -> float:
    """Binary cross-entropy in nats, averaged over all pairs of a text and a label."""
    scaled_NC = np.asarray(logits_NC, dtype=np.float64) / temperature
    return float(np.logaddexp(0.0, np.where(gold_NC, -scaled_NC, scaled_NC)).mean())


def fit_temperature(logits_NC: NDArray[np.floating[Any]], gold_N: NDArray[np.int64]) -> float:
    """The temperature in 0.05 to 20 that minimises the mean negative log-likelihood of the true labels.

    Temperature scaling of Guo et al. (2017). The likelihood has one peak in log T (it is log-concave in 1 / T), so a
    bounded search finds it. Dividing by T never changes which label is best. Where every text is already
    right, ever smaller temperatures fit ever better and the data cannot say which is true: the answer is then 1.
    Raises DataError where there is no text.
    """
    if len(gold_N) == 0:
        raise DataError("there is no text to calibrate on", hint="a validation split needs at least one row")
    rows_N = np.arange(len(gold_N))
    gold_logit_N = logits_NC[rows_N, gold_N]
    if (gold_logit_N == logits_NC.max(axis=1)).all():
        return 1.0

    return _best_temperature(lambda temperature: -float(log_softmax(logits_NC, temperature)[rows_N, gold_N].mean()))


def fit_binary_temperature(logits_NC: NDArray[np.floating[Any]], gold_NC: NDArray[np.bool_]) -> float:
    """As `fit_temperature`, where each label is true or false by itself: one temperature for all labels.

    One number cannot overfit labels that few texts have; what it leaves of their bias is for their thresholds.
    """
    if len(gold_NC) == 0:
        raise DataError("there is no text to calibrate on", hint="a validation split needs at least one row")
    if ((logits_NC > 0) == gold_NC).all():
        return 1.0
    return _best_temperature(lambda temperature: binary_loss(logits_NC, gold_NC, temperature))


def _best_temperature(loss: Callable[[float], float]) -> float:
    """The temperature of the least loss, which has one valley in log T."""
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(lambda log: loss(float(np.exp(log))), bounds=np.log(TEMPERATURE_BOUNDS), method="bounded")
    return float(np.exp(best.x))
