"""What the task of a classifier means: how its logits become answers, and how good answers are."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tonetune.data.example import Example
from tonetune.evaluation.multi_label import MultiLabel
from tonetune.evaluation.paired import Paired
from tonetune.evaluation.single_label import SingleLabel
from tonetune.labels import MULTI_LABEL, LabelSet

# N = texts, C = labels

SINGLE_LABEL = "single-label"

Answers = NDArray[Any]
"""What is true, or said to be, of texts: shape (N,), the column of each one's label; or (N, C), bool, of several."""
Floats = NDArray[np.float64]
Logits = NDArray[np.floating[Any]]
Texts = Sequence[str]


class Task(Protocol):
    """A label set with all that turns logits into answers.

    `thresholds` are the probabilities above which a text has a label; None where it has the most probable one.
    """

    @property
    def label_set(self) -> LabelSet: ...
    @property
    def temperature(self) -> float: ...
    @property
    def thresholds(self) -> dict[str, float] | None: ...

    def gold(self, examples: Sequence[Example]) -> Answers:
        """What is true of examples. Raises UnknownLabelError for a label outside the set."""

    def decided(self, logits_NC: Logits, gold: Answers) -> "Task":
        """The task with what its answers take, fitted on these texts: thresholds, where it has them."""

    def calibrated(self, logits_NC: Logits, gold: Answers) -> "Task":
        """As `decided`, and the temperature too; that changes no answer."""

    def probs(self, logits_NC: Logits) -> Floats:
        """Calibrated probabilities, shape (N, C)."""

    def answers(self, probs_NC: Floats) -> Answers:
        """What is said of texts. Raises ModelError where a probability is not a number."""

    def decide(self, logits_NC: Logits) -> Answers:
        """The answers by logits."""

    def confidence(self, probs_NC: Floats) -> Floats:
        """How sure the answers are, shape (N,)."""

    def rows(self, texts: Texts, probs_NC: Floats, gold: Answers | None = None) -> list[dict[str, Any]]:
        """The rows of predictions.jsonl."""

    def named(self, answers: Answers) -> list[Any]:
        """Each text's label, or list of labels, by name."""

    def numbered(self, named: Sequence[Any]) -> Answers:
        """The reverse of `named`."""

    def validation_scores(self, logits_NC: Logits, gold: Answers) -> dict[str, float]:
        """The metrics that a checkpoint can be chosen by, and the mean "loss"."""

    def summary(self, gold: Answers, answers: Answers, scores_NC: Logits | None) -> dict[str, Any]:
        """The row of a method in the table of results; `scores_NC` rank texts where the task's metrics need it."""

    def report(
        self, split: str, texts: Texts, logits_NC: Logits, gold: Answers, truncated: NDArray[np.bool_]
    ) -> dict[str, Any]:
        """The document report.json of one split."""

    def paired(self, gold: Answers, first: Answers, second: Answers, *, rng: np.random.Generator) -> Paired:
        """Two classifiers on the same texts."""

    def majority(self, train_gold: Answers, num_texts: int) -> Answers:
        """The commonest training label for every text."""

    def tfidf(
        self, train: tuple[Texts, Answers], validation: tuple[Texts, Answers], test: Texts, *, language: str
    ) -> tuple[Answers, Logits | None]:
        """Answers of TF-IDF and logistic regression for the test texts, and the scores behind them."""


def task_of(
    name: str, labels: LabelSet, *, temperature: float = 1.0, thresholds: Mapping[str, float] | None = None
) -> Task:
    """The task by the name that a manifest has; "binary" is single-label, of two labels."""
    if name != MULTI_LABEL:
        return SingleLabel(labels, temperature)
    chosen = tuple(thresholds[label] for label in labels.names) if thresholds else None
    return MultiLabel(labels, temperature, chosen)
