"""The label model: how often each labelling function is right, and what the label probably is, from votes alone."""

import numpy as np
from numpy.typing import NDArray

# N = texts, M = labelling functions, C = labels

ABSTAINED = -1
PRIOR_ACCURACY = 0.7
PRIOR_TEXTS = 20
PRIOR_SHARE = 0.3
"""Before any vote a function is held to be right in 7 of 10 cases. That counts as much as 20 texts, and as 0.3 of each
text that teaches: functions share words, so their agreement proves less than that of independent ones would."""

MAX_ROUNDS = 300
TOLERANCE = 1e-6

Votes = NDArray[np.int64]
Floats = NDArray[np.float64]


def fit(votes_NM: Votes, num_labels: int) -> tuple[Floats, Floats]:
    """Probability of each label for each text, shape (N, C), and the accuracy of each function, shape (M,).

    A vote is a label's index or ABSTAINED. Labels are equally frequent, and functions independent of each other given
    the true label. For each function and label there is a table of how often it casts that vote on texts of each true
    label; that a function may keep silent is what makes one that knows a single label worth something. Tables and
    labels are estimated in turn (expectation maximisation), the tables on texts with several votes, for a text with one
    teaches nothing, and drawn towards a prior. A text without a vote has equal probabilities. The accuracy of a
    function is the mean probability of what it voted for, the prior's where it never voted.

    Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (1979).
    """
    teaching_NM = votes_NM[(votes_NM != ABSTAINED).sum(axis=1) > 1]
    prior_MCC = np.stack([_prior_table(votes_N, num_labels) for votes_N in teaching_NM.T])
    weight = (PRIOR_TEXTS + PRIOR_SHARE * len(teaching_NM)) / num_labels
    tables_MCC, probs_NC = prior_MCC, np.zeros((len(teaching_NM), num_labels))
    for _ in range(MAX_ROUNDS):
        before_NC, probs_NC = probs_NC, _label_probabilities(teaching_NM, tables_MCC)
        if np.abs(probs_NC - before_NC).max(initial=0.0) < TOLERANCE:
            break
        counts_MCC = np.stack([_counts(votes_N, probs_NC) for votes_N in teaching_NM.T])
        tables_MCC = (counts_MCC + weight * prior_MCC) / (probs_NC.sum(axis=0)[:, None] + weight)
    probs_NC = _label_probabilities(votes_NM, tables_MCC)
    return probs_NC, np.array([_accuracy(votes_N, probs_NC) for votes_N in votes_NM.T])


def _prior_table(votes_N: NDArray[np.int64], num_labels: int) -> Floats:
    """How often a function casts each vote (columns) on texts of each true label (rows), were it right in 7 of 10."""
    votes_C = np.bincount(votes_N[votes_N != ABSTAINED], minlength=num_labels).clip(1) / max(len(votes_N), 1)
    wrong = (1 - PRIOR_ACCURACY) / (num_labels - 1)
    return num_labels * votes_C * np.where(np.eye(num_labels) > 0, PRIOR_ACCURACY, wrong)


def _counts(votes_N: NDArray[np.int64], probs_NC: Floats) -> Floats:
    """Expected number of texts of each true label (rows) on which a function cast each vote (columns)."""
    counts_CC = np.zeros((probs_NC.shape[1],) * 2)
    (voted,) = np.nonzero(votes_N != ABSTAINED)
    np.add.at(counts_CC.T, votes_N[voted], probs_NC[voted])
    return counts_CC


def _label_probabilities(votes_NM: Votes, tables_MCC: Floats) -> Floats:
    """Bayes' rule over the votes cast; silence says nothing of the label."""
    from scipy.special import softmax

    scores_NC = np.zeros((len(votes_NM), tables_MCC.shape[1]))
    for votes_N, table_CC in zip(votes_NM.T, tables_MCC, strict=True):
        (voted,) = np.nonzero(votes_N != ABSTAINED)
        scores_NC[voted] += np.log(table_CC.T[votes_N[voted]])
    probs_NC: Floats = softmax(scores_NC, axis=1)
    return probs_NC


def _accuracy(votes_N: NDArray[np.int64], probs_NC: Floats) -> float:
    (voted,) = np.nonzero(votes_N != ABSTAINED)
    return float(probs_NC[voted, votes_N[voted]].mean()) if len(voted) else PRIOR_ACCURACY
