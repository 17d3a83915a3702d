"""The task of one label a text: the most probable one, by a softmax over the labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.data.example import Example
from tonetune.evaluation import baselines
from tonetune.evaluation.calibration import fit_temperature, log_softmax, softmax
from tonetune.evaluation.metrics import (
    argmax_labels,
    classification_metrics,
    expected_calibration_error,
    point_metrics,
    reliability_bins,
)
from tonetune.evaluation.mistakes import abstention_curve, mistakes
from tonetune.evaluation.paired import Paired, paired
from tonetune.evaluation.predictions import prediction_rows, split_report
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.labels import LabelSet

# N = texts, C = labels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Logits = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SingleLabel:
    """As `tasks.Task` says of each method; what is true of texts has the shape (N,), columns of labels."""

    label_set: LabelSet
    temperature: float = 1.0

    @property
    def thresholds(self) -> None:
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        return self.label_set.names

    def gold(self, examples: Sequence[Example]) -> Ints:
        return np.array([self.label_set.index(e.label, origin=e.origin) for e in examples], dtype=np.int64)

    def decided(self, logits_NC: Logits, gold: Ints) -> "SingleLabel":
        return self

    def calibrated(self, logits_NC: Logits, gold: Ints) -> "SingleLabel":
        return replace(self, temperature=fit_temperature(logits_NC, gold))

    def probs(self, logits_NC: Logits) -> Floats:
        return softmax(logits_NC, self.temperature)

    def answers(self, probs_NC: Floats) -> Ints:
        return argmax_labels(probs_NC)

    def decide(self, logits_NC: Logits) -> Ints:
        return argmax_labels(logits_NC)

    def confidence(self, probs_NC: Floats) -> Floats:
        confidence_N: Floats = probs_NC.max(axis=1)
        return confidence_N

    def rows(self, texts: Sequence[str], probs_NC: Floats, gold: Ints | None = None) -> list[dict[str, Any]]:
        return prediction_rows(texts, probs_NC, self.labels, gold)

    def named(self, answers: Ints) -> list[str]:
        return [self.labels[i] for i in answers.tolist()]

    def numbered(self, named: Sequence[str]) -> Ints:
        return np.array([self.label_set.index(name) for name in named], dtype=np.int64)

    def validation_scores(self, logits_NC: Logits, gold: Ints) -> dict[str, float]:
        log_probs_N = log_softmax(logits_NC, 1.0)[np.arange(len(gold)), gold]
        return point_metrics(gold, argmax_labels(logits_NC), len(self.labels)) | {"loss": -float(log_probs_N.mean())}

    def summary(self, gold: Ints, answers: Ints, scores_NC: Logits | None = None) -> dict[str, Any]:
        """Accuracy and macro-F1 with intervals."""
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        return classification_metrics(gold, answers, self.labels, rng=rng).summary()

    def report(
        self, split: str, texts: Sequence[str], logits_NC: Logits, gold: Ints, truncated: NDArray[np.bool_]
    ) -> dict[str, Any]:
        probs_NC, raw_NC = self.probs(logits_NC), softmax(logits_NC, 1.0)
        answers, confidence = self.decide(logits_NC), self.confidence(probs_NC)
        metrics = classification_metrics(gold, answers, self.labels, rng=np.random.default_rng(BOOTSTRAP_SEED))
        return {
            **split_report(split, self.labels, metrics, probs_NC, gold, temperature=self.temperature),
            "uncalibrated": {
                "ece": expected_calibration_error(raw_NC, gold),
                "reliability": reliability_bins(raw_NC, gold),
            },
            "mistakes": mistakes(texts, gold, answers, confidence, truncated, self.labels),
            "abstention": abstention_curve(confidence, answers == gold),
        }

    def paired(self, gold: Ints, first: Ints, second: Ints, *, rng: np.random.Generator) -> Paired:
        return paired(gold, first, second, num_labels=len(self.labels), rng=rng)

    def majority(self, train_gold: Ints, num_texts: int) -> Ints:
        return baselines.majority(train_gold, num_texts)

    def tfidf(
        self,
        train: tuple[Sequence[str], Ints],
        validation: tuple[Sequence[str], Ints],
        test: Sequence[str],
        *,
        language: str,
    ) -> tuple[Ints, None]:
        return baselines.tfidf(*train, test, language=language), None
