"""Laws of class weights: those of scikit-learn, and one on average over the texts."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from tonetune.errors import ConfigError
from tonetune.training.weights import balanced

GOLD = np.array([0] * 70 + [1] * 20 + [3] * 10)


def test_weights_are_those_of_scikit_learn_and_one_on_average():
    weights = np.array(balanced(GOLD, 4))
    np.testing.assert_allclose(
        weights[[0, 1, 3]], compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=GOLD)
    )
    assert weights[2] == 0 and weights[GOLD].mean() == pytest.approx(1.0)


def test_equal_classes_weigh_nothing():
    assert balanced(np.arange(12) % 3, 3) == (1.0, 1.0, 1.0)


def test_texts_of_several_labels_have_no_weight():
    with pytest.raises(ConfigError, match="one label each"):
        balanced(np.ones((5, 3), dtype=np.int64), 3)
