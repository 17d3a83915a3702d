"""What a tuned model must beat: the commonest class, TF-IDF with logistic regression, and zero-shot put right."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import DataError

MAX_TERMS = 80_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def majority(train_gold: Ints, n: int) -> Ints:
    """The commonest training label (the first of equal ones) for each of `n` texts.

    Raises DataError where there is no training label.
    """
    if len(train_gold) == 0:
        raise DataError("there is no training label to take the commonest of", where="data.train")
    return np.full(n, np.bincount(train_gold).argmax(), dtype=np.int64)


def tfidf(train_texts: Sequence[str], train_gold: Ints, test_texts: Sequence[str], *, language: str) -> Ints:
    """Label indices of `test_texts` from TF-IDF features and balanced logistic regression trained on `train_texts`.

    Chinese texts are cut into 1 to 3 characters, others into words and word pairs; the 80,000 commonest terms count.
    A term counts from its second text on; where no term occurs in two texts, from its first. With a single class, or
    no term at all, there is nothing to learn and the answer is the commonest class. Raises DataError where there is no
    training text.
    """
    fitted = _tfidf(train_texts, train_gold, language=language)
    if fitted is None:
        return majority(train_gold, len(test_texts))
    vectorizer, model = fitted
    predicted: Ints = model.predict(vectorizer.transform(test_texts))
    return predicted


def tfidf_probabilities(
    train_texts: Sequence[str], train_gold: Ints, test_texts: Sequence[str], *, num_labels: int, language: str
) -> Floats:
    """Probabilities of the labels of `test_texts`, shape (N, C), as `tfidf` sees them; zero for a label not trained on.

    With nothing to learn they are the shares of the labels. Raises DataError where there is no training text.
    """
    fitted = _tfidf(train_texts, train_gold, language=language)
    probs_NC = np.zeros((len(test_texts), num_labels))
    if fitted is None:
        majority(train_gold, 0)  # raises where there is no training label
        probs_NC[:] = np.bincount(train_gold, minlength=num_labels) / len(train_gold)
    else:
        vectorizer, model = fitted
        probs_NC[:, model.classes_] = model.predict_proba(vectorizer.transform(test_texts))
    return probs_NC


def _tfidf(train_texts: Sequence[str], train_gold: Ints, *, language: str) -> tuple[Any, Any] | None:
    """Vectorizer and model, fitted; None where there is nothing to learn."""
    vectorizer = _vectorizer(train_texts, language)
    if vectorizer is None or len(np.unique(train_gold)) < 2:
        return None
    return vectorizer, _regression(vectorizer.fit_transform(train_texts), train_gold)


def tfidf_scores(
    train_texts: Sequence[str], train_gold_NC: Bools, others: Sequence[Sequence[str]], *, language: str
) -> list[Floats]:
    """Scores, shape (N, C), of each of several lists of texts: above 0 is a yes to the label of the column.

    As `tfidf`, with a regression for each label against all other texts. A label of every training text, or of none,
    has a constant score, and without any term so has each: the logarithm of its odds.
    """
    smoothed_C = (train_gold_NC.sum(axis=0) + 0.5) / (len(train_gold_NC) + 1)
    scores = [np.tile(np.log(smoothed_C / (1 - smoothed_C)), (len(texts), 1)) for texts in others]
    vectorizer = _vectorizer(train_texts, language)
    if vectorizer is None:
        return scores
    features = vectorizer.fit_transform(train_texts)
    parts = [vectorizer.transform(texts) if len(texts) else None for texts in others]
    for c in np.flatnonzero(train_gold_NC.any(axis=0) & ~train_gold_NC.all(axis=0)).tolist():
        model = _regression(features, train_gold_NC[:, c])
        for scores_NC, part in zip(scores, parts, strict=True):
            if part is not None:
                scores_NC[:, c] = model.decision_function(part)
    return scores


def _vectorizer(train_texts: Sequence[str], language: str) -> Any:
    """What makes TF-IDF features, not fitted yet; None where the texts have no term."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    terms: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)} if language == "zh" else {"ngram_range": (1, 2)}
    settings = {**terms, "max_features": MAX_TERMS}
    min_df = _min_df(train_texts, TfidfVectorizer(**settings).build_analyzer())
    return None if min_df is None else TfidfVectorizer(**settings, min_df=min_df, sublinear_tf=True)


def _regression(features: Any, gold_N: NDArray[Any]) -> Any:
    """Balanced logistic regression, fitted."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=400, C=4, class_weight="balanced")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 400 iterations belong to the baseline's definition
        return model.fit(features, gold_N)


def _min_df(texts: Iterable[str], analyze: Callable[[str], list[str]]) -> int | None:
    """2 where some term occurs in two texts, 1 where each occurs in one, None where there is no term."""
    seen: set[str] = set()
    for text in texts:
        terms = set(analyze(text))
        if not seen.isdisjoint(terms):
            return 2
        seen |= terms
    return 1 if seen else None


def zero_shot_calibrated(test_log_scores_NC: Floats, reference_log_scores_MC: Floats) -> Floats:
    """Label-word log-scores less their mean over unlabelled reference texts, shape (N, C).

    A language model prefers some words whatever the text says. The mean log-score of each word over the M reference
    texts (training texts without their labels) estimates that preference; without it the classes compete on
    equal terms. Raises DataError where there is no reference text.
    """
    if len(reference_log_scores_MC) == 0:
        raise DataError("there is no training text to estimate the bias of the label words on", where="data.train")
    corrected_NC: Floats = test_log_scores_NC - reference_log_scores_MC.mean(axis=0)
    return corrected_NC
