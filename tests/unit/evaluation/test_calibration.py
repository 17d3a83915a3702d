"""Laws of softmax and temperature scaling."""

import numpy as np
import pytest

from tonetune.errors import DataError
from tonetune.evaluation.calibration import fit_temperature, log_softmax, softmax
from tonetune.evaluation.metrics import expected_calibration_error


def drawn(temperature, *, num_texts=20_000, seed=0):
    """Logits, and labels drawn from softmax(logits / temperature)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=4.0, size=(num_texts, 3))
    cumulative = softmax(logits, temperature).cumsum(axis=1)
    gold = (rng.random((num_texts, 1)) > cumulative).sum(axis=1).clip(max=2)
    return logits, gold


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5, 6.0])
def test_a_known_temperature_is_recovered(temperature):
    logits, gold = drawn(temperature)
    assert fit_temperature(logits, gold) == pytest.approx(temperature, rel=0.05)


def test_the_fitted_temperature_fits_better_than_its_neighbours_and_calibrates():
    logits, gold = drawn(3.0, num_texts=4000)
    best = fit_temperature(logits, gold)

    def loss(temperature):
        return -np.log(softmax(logits, temperature)[np.arange(len(gold)), gold]).mean()

    assert loss(best) < min(loss(best * 0.9), loss(best * 1.1), loss(1.0))
    before, after = (expected_calibration_error(softmax(logits, t), gold) for t in (1.0, best))
    assert after < before / 3


def test_extremes_stay_in_bounds():
    logits, _ = drawn(1.0, num_texts=500)
    assert fit_temperature(logits, logits.argmin(axis=1)) == pytest.approx(20.0, rel=0.01)
    assert fit_temperature(logits, logits.argmax(axis=1)) == 1.0  # every text right: nothing to fit


def test_float32_logits_give_the_same_temperature():
    logits, gold = drawn(2.0, num_texts=2000)
    assert fit_temperature(logits.astype(np.float32), gold) == pytest.approx(fit_temperature(logits, gold), rel=1e-3)


def test_softmax_is_shift_invariant_and_safe():
    logits = np.array([[1e4, -1e4, 0.0], [3.0, 2.0, 1.0]], dtype=np.float32)
    probs = softmax(logits, 1.0)
    assert probs.dtype == np.float64 and np.isfinite(probs).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    np.testing.assert_allclose(softmax(logits + 100, 1.0), probs)
    np.testing.assert_allclose(probs[1], np.exp([3, 2, 1]) / np.exp([3, 2, 1]).sum())


def test_log_softmax_is_finite_where_the_probability_vanishes():
    logits = np.array([[1e4, -1e4], [1.0, 2.0]], dtype=np.float32)
    assert log_softmax(logits, 1.0)[0, 1] == -2e4
    np.testing.assert_allclose(np.exp(log_softmax(logits, 2.0)), softmax(logits, 2.0))


def test_temperature_never_changes_the_best_label():
    logits, _ = drawn(1.0, num_texts=200)
    for temperature in (0.05, 1.0, 20.0):
        assert (softmax(logits, temperature).argmax(axis=1) == logits.argmax(axis=1)).all()


def test_no_text_is_an_error():
    with pytest.raises(DataError, match="no text"):
        fit_temperature(np.empty((0, 2)), np.empty(0, int))
