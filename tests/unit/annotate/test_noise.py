"""Laws of doubtful labels: what was flipped on purpose stands at the top, and no row judges itself."""

import numpy as np
import pytest
import tiny

pytest.importorskip("cleanlab", reason="needs the extra noise")

from tonetune.annotate.noise import doubtful, out_of_fold
from tonetune.errors import DataError
from tonetune.evaluation.baselines import tfidf, tfidf_probabilities

FLIPPED = 0.1


def flipped(language, *, num_rows=400, rate=FLIPPED):
    """Texts, labels of which a share was changed, and which."""
    rows = tiny.emotion_rows(language, num_rows)
    names = sorted({label for _, label in rows})
    gold = np.array([names.index(label) for _, label in rows])
    rng = np.random.default_rng(3)
    wrong = rng.random(num_rows) < rate
    return [text for text, _ in rows], np.where(wrong, (gold + rng.integers(1, 4, num_rows)) % 4, gold), wrong, gold


@pytest.mark.parametrize("language", ["en", "zh"])
def test_labels_flipped_on_purpose_are_found(language):
    texts, noisy, wrong, gold = flipped(language)
    rng = np.random.default_rng(0)
    probs = out_of_fold(texts, noisy, num_labels=4, language=language, folds=5, rng=rng)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    doubts = doubtful(noisy, probs)
    top = doubts[: wrong.sum() // 2]
    assert np.mean([wrong[doubt.row] for doubt in top]) > 0.9  # nine times the rate, by chance it would be a tenth
    assert np.mean([doubt.suggested == gold[doubt.row] for doubt in top]) > 0.9
    assert sum(wrong[doubt.row] for doubt in doubts) > 0.7 * wrong.sum()
    assert [doubt.score for doubt in doubts] == sorted(doubt.score for doubt in doubts)
    assert all(doubt.suggested != noisy[doubt.row] for doubt in doubts)


def test_a_row_is_judged_by_others_alone():
    """A text that nothing else resembles cannot be known: its own label must not show in its probabilities."""
    texts = [f"unlike{i} odd{i}" for i in range(40)]
    gold = np.array([0, 1] * 20)
    rng = np.random.default_rng(0)
    probs = out_of_fold(texts, gold, num_labels=2, language="en", folds=5, rng=rng)
    assert abs(probs[range(40), gold].mean() - 0.5) < 0.05


def test_a_label_of_one_row_cannot_be_judged():
    with pytest.raises(DataError, match="1 texts"):
        out_of_fold(["a", "b", "c"], np.array([0, 0, 1]), num_labels=2, language="en", folds=5,
                    rng=np.random.default_rng(0))  # fmt: skip


def test_probabilities_are_those_behind_the_baseline():
    texts, gold, *_ = flipped("en", rate=0.0)
    probs = tfidf_probabilities(texts[:200], gold[:200], texts[200:], num_labels=5, language="en")
    assert (probs.argmax(axis=1) == tfidf(texts[:200], gold[:200], texts[200:], language="en")).all()
    assert (probs[:, 4] == 0).all()
    nothing = tfidf_probabilities(["", ""], np.array([1, 1]), ["a"], num_labels=2, language="en")
    assert nothing.tolist() == [[0.0, 1.0]]
