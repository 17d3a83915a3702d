"""The task of any number of labels a text: each label by itself, by a sigmoid and a threshold of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.data.example import Example
from tonetune.evaluation.baselines import tfidf_scores
from tonetune.evaluation.calibration import binary_loss, fit_binary_temperature, sigmoid
from tonetune.evaluation.metrics import require_numbers
from tonetune.evaluation.mistakes import abstention_curve
from tonetune.evaluation.multi_metrics import (
    multi_calibration_error,
    multi_metrics,
    multi_point_metrics,
    multi_reliability_bins,
    multi_summary,
)
from tonetune.evaluation.multi_mistakes import multi_mistakes, names
from tonetune.evaluation.paired import Paired, paired_sets
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.evaluation.thresholds import fit_cuts
from tonetune.labels import MULTI_LABEL, LabelSet

# N = texts, C = labels

EVEN = 0.5

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Logits = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class MultiLabel:
    """As `tasks.Task` says of each method; what is true of texts has the shape (N, C).

    A text has the labels whose probability is above their threshold, and may have none. `chosen` holds the thresholds,
    shape (C,); None is one half for each.
    """

    label_set: LabelSet
    temperature: float = 1.0
    chosen: tuple[float, ...] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        return self.label_set.names

    @property
    def thresholds(self) -> dict[str, float]:
        return dict(zip(self.labels, self._vector.tolist(), strict=True))

    @property
    def _vector(self) -> Floats:
        """The thresholds, shape (C,)."""
        return np.full(len(self.labels), EVEN) if self.chosen is None else np.array(self.chosen)

    def gold(self, examples: Sequence[Example]) -> Bools:
        gold_NC = np.zeros((len(examples), len(self.labels)), dtype=np.bool_)
        for i, example in enumerate(examples):
            gold_NC[i, [self.label_set.index(label, origin=example.origin) for label in example.labels]] = True
        return gold_NC

    def decided(self, logits_NC: Logits, gold: Bools) -> "MultiLabel":
        return self._cut(fit_cuts(logits_NC, gold))

    def _cut(self, cuts_C: Floats) -> "MultiLabel":
        return replace(self, chosen=tuple(sigmoid(cuts_C, self.temperature).tolist()))

    def calibrated(self, logits_NC: Logits, gold: Bools) -> "MultiLabel":
        return replace(self, temperature=fit_binary_temperature(logits_NC, gold)).decided(logits_NC, gold)

    def probs(self, logits_NC: Logits) -> Floats:
        return sigmoid(logits_NC, self.temperature)

    def answers(self, probs_NC: Floats) -> Bools:
        require_numbers(probs_NC)  # a threshold would take what is none for a no
        answers_NC: Bools = probs_NC > self._vector
        return answers_NC

    def decide(self, logits_NC: Logits) -> Bools:
        require_numbers(logits_NC)
        return self.answers(self.probs(logits_NC))

    def confidence(self, probs_NC: Floats) -> Floats:
        """The probability that the least sure of a text's decisions is right: of a label given p, of another 1 - p."""
        confidence_N: Floats = np.where(self.answers(probs_NC), probs_NC, 1 - probs_NC).min(axis=1)
        return confidence_N

    def rows(self, texts: Sequence[str], probs_NC: Floats, gold: Bools | None = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {
                "text": text,
                "labels": found,
                "confidence": confidence,
                "scores": dict(zip(self.labels, probs_C.tolist(), strict=True)),
            }
            for text, found, confidence, probs_C in zip(
                texts, self.named(self.answers(probs_NC)), self.confidence(probs_NC).tolist(), probs_NC, strict=True
            )
        ]
        if gold is not None:
            for row, true in zip(rows, self.named(gold), strict=True):
                row["gold"] = true
        return rows

    def named(self, answers: Bools) -> list[list[str]]:
        return [names(answers_C, self.labels) for answers_C in answers]

    def numbered(self, named: Sequence[Sequence[str]]) -> Bools:
        return self.gold([Example("", tuple(labels), "") for labels in named])

    def validation_scores(self, logits_NC: Logits, gold: Bools) -> dict[str, float]:
        """Micro-F1, macro-F1 and share of exact answers at thresholds fitted on these very texts, and the mean loss."""
        fitted = self.decided(logits_NC, gold)
        scores = multi_point_metrics(gold, fitted.decide(logits_NC))
        return scores | {"loss": binary_loss(logits_NC, gold, 1.0)}

    def summary(self, gold: Bools, answers: Bools, scores_NC: Logits | None = None) -> dict[str, Any]:
        """Micro-F1, macro-F1, share of exact answers and macro average precision with intervals."""
        ranked_NC = answers.astype(np.float64) if scores_NC is None else scores_NC
        return multi_summary(gold, answers, ranked_NC, self.labels, rng=np.random.default_rng(BOOTSTRAP_SEED))

    def report(
        self, split: str, texts: Sequence[str], logits_NC: Logits, gold: Bools, truncated: Bools
    ) -> dict[str, Any]:
        probs_NC, raw_NC = self.probs(logits_NC), sigmoid(logits_NC, 1.0)
        answers, confidence = self.answers(probs_NC), self.confidence(probs_NC)
        metrics = multi_metrics(gold, answers, logits_NC, self.labels, rng=np.random.default_rng(BOOTSTRAP_SEED))
        return {
            "task": MULTI_LABEL,
            "labels": list(self.labels),
            "split": split,
            **metrics,
            "ece": multi_calibration_error(probs_NC, gold),
            "temperature": self.temperature,
            "thresholds": self.thresholds,
            "reliability": multi_reliability_bins(probs_NC, gold),
            "alarms": [],
            "uncalibrated": {
                "ece": multi_calibration_error(raw_NC, gold),
                "reliability": multi_reliability_bins(raw_NC, gold),
            },
            "mistakes": multi_mistakes(texts, gold, answers, confidence, truncated, self.labels, metrics),
            "abstention": abstention_curve(confidence, (answers == gold).all(axis=1)),
        }

    def paired(self, gold: Bools, first: Bools, second: Bools, *, rng: np.random.Generator) -> Paired:
        return paired_sets(gold, first, second, rng=rng)

    def majority(self, train_gold: Bools, num_texts: int) -> Bools:
        """The commonest label alone for every text."""
        answers = np.zeros((num_texts, len(self.labels)), dtype=np.bool_)
        answers[:, train_gold.sum(axis=0).argmax()] = True
        return answers

    def tfidf(
        self,
        train: tuple[Sequence[str], Bools],
        validation: tuple[Sequence[str], Bools],
        test: Sequence[str],
        *,
        language: str,
    ) -> tuple[Bools, Logits]:
        """One logistic regression a label, its thresholds fitted on the validation texts as those of the model are."""
        on_validation, on_test = tfidf_scores(*train, [validation[0], test], language=language)
        fitted = replace(self, temperature=1.0).decided(on_validation, validation[1])
        return fitted.decide(on_test), on_test
