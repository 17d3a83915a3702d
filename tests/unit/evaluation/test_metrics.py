"""Laws of the metrics, checked against scikit-learn and against a plain bootstrap over rows."""

import json
import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, precision_recall_fscore_support
from sklearn.metrics import confusion_matrix as sklearn_confusion

from tonetune.errors import DataError, ModelError
from tonetune.evaluation import metrics as module
from tonetune.evaluation import tally
from tonetune.evaluation.metrics import (
    Metrics,
    argmax_labels,
    classification_metrics,
    expected_calibration_error,
    point_metrics,
    reliability_bins,
)

LABELS = ("anger", "joy", "neutral", "surprise")


def invented(num_texts, *, seed=0, right=0.7, num_classes=3):
    """True and predicted indices over `num_classes` of the four labels; the others never occur."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(num_classes, size=num_texts)
    guess = rng.integers(num_classes, size=num_texts)
    return gold, np.where(rng.random(num_texts) < right, gold, guess)


def measure(gold, predicted, *, seed=0, labels=LABELS) -> Metrics:
    return classification_metrics(np.asarray(gold), np.asarray(predicted), labels, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("num_classes", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_point_values_are_those_of_scikit_learn(seed, num_classes):
    gold, predicted = invented(97, seed=seed, num_classes=num_classes)
    metrics = measure(gold, predicted)
    classes = range(len(LABELS))
    assert metrics.accuracy == pytest.approx(accuracy_score(gold, predicted))
    assert metrics.macro_f1 == pytest.approx(
        f1_score(gold, predicted, labels=classes, average="macro", zero_division=0)
    )
    assert metrics.mcc == pytest.approx(matthews_corrcoef(gold, predicted))
    assert metrics.confusion == sklearn_confusion(gold, predicted, labels=classes).tolist()
    expected = precision_recall_fscore_support(gold, predicted, labels=classes, zero_division=0)
    found = [[row[name] for row in metrics.per_label.values()] for name in ("precision", "recall", "f1", "support")]
    np.testing.assert_allclose(found, expected)


@pytest.mark.slow
def test_intervals_are_those_of_a_bootstrap_over_rows():
    gold, predicted = invented(150, seed=3)
    metrics = measure(gold, predicted)
    rng = np.random.default_rng(9)
    drawn = []
    for rows in rng.integers(len(gold), size=(600, len(gold))):
        columns = precision_recall_fscore_support(gold[rows], predicted[rows], labels=range(4), zero_division=0)[:3]
        accuracy, mcc = (gold[rows] == predicted[rows]).mean(), matthews_corrcoef(gold[rows], predicted[rows])
        drawn.append([accuracy, columns[2].mean(), mcc, *np.ravel(columns)])
    found = [metrics.accuracy_ci95, metrics.macro_f1_ci95, metrics.mcc_ci95]
    found += [row[f"{name}_ci95"] for name in ("precision", "recall", "f1") for row in metrics.per_label.values()]
    np.testing.assert_allclose(found, np.quantile(drawn, (0.025, 0.975), axis=0).T, atol=0.035)


def test_interval_holds_the_point_and_narrows_with_more_texts():
    few, many = measure(*invented(60)), measure(*invented(6000))
    for metrics in (few, many):
        assert metrics.accuracy_ci95[0] <= metrics.accuracy <= metrics.accuracy_ci95[1]
        assert metrics.macro_f1_ci95[0] <= metrics.macro_f1 <= metrics.macro_f1_ci95[1]
    assert np.diff(many.accuracy_ci95) < np.diff(few.accuracy_ci95) / 5


def test_same_generator_gives_same_intervals_and_row_order_does_not_matter():
    gold, predicted = invented(80)
    order = np.random.default_rng(1).permutation(80)
    assert measure(gold, predicted) == measure(gold, predicted) == measure(gold[order], predicted[order])
    assert measure(gold, predicted, seed=1).macro_f1_ci95 != measure(gold, predicted, seed=2).macro_f1_ci95


@pytest.mark.parametrize("counts", [1, 100, 777])
def test_drawing_in_blocks_changes_no_interval(monkeypatch, counts):
    whole = measure(*invented(80))
    monkeypatch.setattr(tally, "RESAMPLES", 5000)
    monkeypatch.setattr(tally, "BLOCK_COUNTS", counts)
    assert measure(*invented(80)) == whole


@pytest.mark.slow
def test_intervals_of_many_classes_need_little_memory():
    num_labels = 1500
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(num_labels, size=(2, 3000))
    tracemalloc.start()
    measure(gold, np.where(rng.random(3000) < 0.5, gold, predicted), labels=[str(i) for i in range(num_labels)])
    peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert peak_mib < 250  # the confusion matrix as a list is most of it


def test_point_metrics_are_those_of_the_whole_and_need_no_resampling(monkeypatch):
    gold, predicted = invented(97)
    metrics = measure(gold, predicted)
    monkeypatch.delattr(module, "resample")
    found = point_metrics(gold, predicted, len(LABELS))
    assert found == {"accuracy": metrics.accuracy, "macro_f1": metrics.macro_f1}
    with pytest.raises(DataError, match="no text to score"):
        point_metrics(np.empty(0, int), np.empty(0, int), 2)


def test_all_right_is_one_everywhere():
    metrics = measure([0, 1, 2, 3], [0, 1, 2, 3])
    assert metrics.accuracy == metrics.macro_f1 == metrics.mcc == 1.0
    assert metrics.accuracy_ci95 == (1.0, 1.0)


def test_documents_have_the_agreed_keys_and_are_json():
    metrics = measure(*invented(20))
    assert set(metrics.summary()) == {"accuracy", "accuracy_ci95", "macro_f1", "macro_f1_ci95", "n"}
    document = metrics.as_dict()
    assert set(document) == set(metrics.summary()) | {"mcc", "mcc_ci95", "per_label", "confusion"}
    assert json.loads(json.dumps(document)) == document


def test_no_text_is_an_error():
    with pytest.raises(DataError, match="no text to score"):
        measure(np.empty(0, int), np.empty(0, int))
    with pytest.raises(DataError, match="no text to calibrate"):
        expected_calibration_error(np.empty((0, 2)), np.empty(0, int))


def test_best_label_is_the_first_of_equals_and_never_a_nan():
    assert argmax_labels(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist() == [1, 0]
    with pytest.raises(ModelError, match="1 of 2 texts"):
        argmax_labels(np.array([[0.2, 0.8], [np.nan, 0.5]]))


def test_calibration_error_is_the_weighted_gap():
    sure, unsure = [[0.9, 0.1]] * 4, [[0.6, 0.4]] * 6
    gold = np.array([0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
    by_hand = 0.4 * abs(3 / 4 - 0.9) + 0.6 * abs(1 / 6 - 0.6)
    assert expected_calibration_error(np.array(sure + unsure), gold) == pytest.approx(by_hand)


def test_calibration_error_vanishes_for_honest_probabilities():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet((1.0, 1.0, 1.0), size=40_000)
    gold = (rng.random((len(probs), 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=2)
    assert expected_calibration_error(probs, gold) < 0.012
    assert expected_calibration_error(probs, np.roll(gold, 1)) > 0.1


def test_bins_hold_every_text_and_close_on_the_right():
    probs = np.array([[1.0, 0.0], [0.6, 0.4], [0.6000001, 0.3999999], [0.5, 0.5]])
    bins = reliability_bins(probs, np.zeros(4, int))
    assert sum(b["count"] for b in bins) == 4
    assert [b["count"] for b in bins] == [1, 1, 1, 1]  # 0.6 = 9/15 ends its bin


@pytest.mark.slow
@pytest.mark.parametrize("num_texts", [300, 600, 1200])
@pytest.mark.parametrize("accuracy", [0.6, 0.75, 0.9])
def test_accuracy_intervals_cover_the_truth_in_93_to_97_of_100(accuracy, num_texts):
    """2,000 draws of texts; the interval depends on how many are right, so each number is measured once."""
    rights, draws = np.unique(np.random.default_rng(1).binomial(num_texts, accuracy, size=2000), return_counts=True)
    covered = 0
    for right, count in zip(rights, draws, strict=True):
        predicted = (np.arange(num_texts) >= right).astype(int)
        low, high = measure(np.zeros(num_texts, int), predicted, labels=("a", "b")).accuracy_ci95
        covered += count * (low <= accuracy <= high)
    assert 0.93 <= covered / 2000 <= 0.97


@pytest.mark.slow
def test_macro_f1_intervals_cover_the_truth_too():
    joint = np.array([[0.35, 0.05, 0.02], [0.06, 0.22, 0.05], [0.02, 0.06, 0.17]])
    truth = float(tally.Tally.of_matrix(joint).macro_f1)
    rng = np.random.default_rng(2)
    covered = 0
    for trial in range(250):
        gold, predicted = np.divmod(rng.choice(9, size=600, p=joint.ravel()), 3)
        low, high = measure(gold, predicted, seed=trial, labels=("a", "b", "c")).macro_f1_ci95
        covered += low <= truth <= high
    assert 0.91 <= covered / 250 <= 0.99
