"""Laws of the task of any number of labels: metrics as scikit-learn has them, answers that calibration leaves alone."""

import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, precision_recall_fscore_support

from tonetune.api.audit import POSSIBLE, audit
from tonetune.api.results import evaluate_split
from tonetune.data.example import Example
from tonetune.errors import DataError, ModelError, UnknownLabelError
from tonetune.evaluation.calibration import binary_loss, fit_binary_temperature, sigmoid
from tonetune.evaluation.multi_label import MultiLabel
from tonetune.evaluation.multi_tally import average_precision, resample_sets
from tonetune.evaluation.tasks import task_of
from tonetune.labels import LabelSet

LABELS = LabelSet(("anger", "fear", "joy", "nobody"))
TASK = MultiLabel(LABELS)


def scored(seed=0, *, num_texts=300, noise=1.0, scale=1.0):
    """Logits and truths; no text has the last label, and logits come in ties."""
    rng = np.random.default_rng(seed)
    gold = rng.random((num_texts, 4)) < (0.4, 0.15, 0.3, 0.0)
    logits = np.where(gold, 1.0, -1.0) + rng.normal(scale=noise, size=gold.shape)
    return (scale * np.round(logits, 1)).astype(np.float32), gold


def report_of(task, logits, gold):
    texts = [f"text {i}" for i in range(len(gold))]
    return evaluate_split(task, "test", texts=texts, logits=logits, gold=gold, truncated=np.zeros(len(gold), bool))


@pytest.fixture(scope="module")
def fitted():
    return TASK.calibrated(*scored(1, scale=3.0))


@pytest.fixture(scope="module")
def evaluated(fitted):
    logits, gold = scored(2, scale=3.0)
    return logits, gold, *report_of(fitted, logits, gold)


def test_the_numbers_of_a_report_are_those_of_scikit_learn(fitted, evaluated):
    logits, gold, report, rows = evaluated
    answers, tuned = fitted.decide(logits), report["tuned"]
    assert tuned["micro_f1"] == pytest.approx(f1_score(gold, answers, average="micro"))
    assert tuned["macro_f1"] == pytest.approx(f1_score(gold, answers, average="macro", zero_division=0))
    assert tuned["accuracy"] == pytest.approx(accuracy_score(gold, answers))
    known = [average_precision_score(gold[:, c], logits[:, c]) for c in range(3)]
    assert tuned["average_precision"] == pytest.approx(np.mean(known))
    parts = precision_recall_fscore_support(gold, answers, zero_division=0)
    for name, column in zip(("precision", "recall", "f1", "support"), parts, strict=True):
        assert [row[name] for row in report["per_label"].values()] == pytest.approx(list(column))
    assert [row["average_precision"] for row in report["per_label"].values()] == [*map(pytest.approx, known), None]
    for name in ("micro_f1", "macro_f1", "accuracy", "average_precision"):
        low, high = tuned[f"{name}_ci95"]
        assert low < tuned[name] < high
    for row in report["per_label"].values():
        counts = [row[f"{right}_{side}"] for right in ("true", "false") for side in ("positives", "negatives")]
        assert sum(counts) == len(gold)
    assert rows[5]["labels"] == [name for name, given in zip(LABELS.names, answers[5], strict=True) if given]
    assert rows[5]["gold"] == [name for name, true in zip(LABELS.names, gold[5], strict=True) if true]
    json.dumps(report, allow_nan=False)


def test_what_stands_for_what_counts_every_miss_and_every_wrong_label(evaluated):
    *_, report, rows = evaluated
    assert rows and report["mistakes"]["confident"]
    missed = np.array([[name in row["gold"] and name not in row["labels"] for name in LABELS.names] for row in rows])
    added = np.array([[name in row["labels"] and name not in row["gold"] for name in LABELS.names] for row in rows])
    for i, j in ((0, 1), (2, 0)):
        assert report["missed_for"][i][j] == (missed[:, i] & added[:, j]).sum()
    assert report["missed_alone"] == (missed & ~added.any(axis=1, keepdims=True)).sum(axis=0).tolist()
    assert report["mistakes"]["count"] == (missed | added).any(axis=1).sum()


def test_a_report_passes_the_audit_of_others(evaluated, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(evaluated[2]), encoding="utf-8")
    assert audit(path)["verdict"] == POSSIBLE


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("micro_f1", 0.999, "tuned.micro_f1"),
        ("macro_f1", 0.001, "tuned.macro_f1"),
        ("accuracy", 0.9999, "tuned.accuracy"),
        ("n", 1, "support of"),
    ],
)
def test_the_audit_names_a_number_that_cannot_be(evaluated, tmp_path, key, value, named):
    report = evaluated[2] | {"tuned": evaluated[2]["tuned"] | {key: value}}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    found = audit(path)["findings"]
    assert found and all(finding["numbers"][0].startswith(named) for finding in found)


def test_calibration_changes_no_answer_and_lowers_the_loss(fitted):
    """Thresholds are fitted on logits and stored as probabilities at the temperature."""
    logits, gold = scored(1, scale=3.0)
    assert np.array_equal(fitted.decide(logits), TASK.decided(logits, gold).decide(logits))
    assert fitted.temperature == pytest.approx(3.0 / 2.0, rel=0.25)  # log odds of N(±1, 1) are twice the score
    losses = [binary_loss(logits, gold, t) for t in (1.0, 0.8 * fitted.temperature, 1.25 * fitted.temperature)]
    assert binary_loss(logits, gold, fitted.temperature) < min(losses)
    again = task_of("multi-label", LABELS, temperature=fitted.temperature, thresholds=fitted.thresholds)
    assert np.array_equal(again.decide(logits), fitted.decide(logits))


def test_where_every_answer_is_right_no_temperature_is_fitted():
    logits, gold = scored(noise=0.01)
    assert fit_binary_temperature(logits, gold) == 1.0
    with pytest.raises(DataError, match="no text"):
        fit_binary_temperature(logits[:0], gold[:0])


def test_a_sigmoid_is_safe_at_any_size():
    logits = np.array([[-1e4, -30.0, 0.0, 30.0, 1e4]])
    assert sigmoid(logits, 1.0) == pytest.approx(expit(logits), rel=1e-12)


def test_a_text_may_have_no_label_and_a_broken_score_is_an_error():
    rows = TASK.rows(["a", "b"], np.array([[0.1, 0.2, 0.3, 0.4], [0.9, 0.2, 0.8, 0.1]]))
    assert [row["labels"] for row in rows] == [[], ["anger", "joy"]]
    assert [row["confidence"] for row in rows] == [pytest.approx(0.6), pytest.approx(0.8)]
    assert TASK.named(TASK.numbered([["joy", "anger"], []])) == [["anger", "joy"], []]
    with pytest.raises(ModelError, match="not numbers"):
        TASK.decide(np.array([[0.0, np.nan, 0.0, 0.0]]))
    with pytest.raises(UnknownLabelError, match=r"a\.csv:3"):
        TASK.gold([Example("text", ("joyful",), "a.csv:3")])


def test_average_precision_of_weighted_texts_is_that_of_repeated_ones():
    logits, gold = scored(num_texts=60)
    weights = np.random.default_rng(3).integers(0, 4, size=(2, 60))
    found = average_precision(gold, logits, weights)
    for r in range(2):
        expected = [average_precision_score(gold[:, c], logits[:, c], sample_weight=weights[r]) for c in range(3)]
        assert found[r, :3] == pytest.approx(expected)
    assert np.isnan(found[:, 3]).all()


def test_resamples_are_those_of_a_bootstrap_over_texts():
    """Mean and spread of micro-F1, found again by drawing rows one by one."""
    logits, gold = scored(num_texts=80)
    answers, rng = logits > 0, np.random.default_rng(0)
    (drawn,) = resample_sets(gold, [answers], rng=rng)
    rows = rng.integers(80, size=(4000, 80))
    hits, both = (gold & answers).sum(axis=1), gold.sum(axis=1) + answers.sum(axis=1)
    plain = 2 * hits[rows].sum(axis=1) / both[rows].sum(axis=1)
    assert drawn.micro_f1.mean() == pytest.approx(np.mean(plain), abs=0.005)
    assert drawn.micro_f1.std() == pytest.approx(np.std(plain), rel=0.1)


def test_the_better_of_two_is_found_and_one_is_no_better_than_itself():
    logits, gold = scored()
    worse = logits + np.random.default_rng(5).normal(scale=2.0, size=logits.shape)
    test = TASK.paired(gold, worse > 0, logits > 0, rng=np.random.default_rng(0))
    assert set(test.difference) == {"micro_f1", "macro_f1", "accuracy"}
    assert all(test.difference[name] > 0 and test.certain(name) for name in test.difference)
    same = TASK.paired(gold, logits > 0, logits > 0, rng=np.random.default_rng(0))
    assert set(same.difference.values()) == {0.0} and set(same.p_value.values()) == {1.0}
    assert same.won == same.lost == 0
