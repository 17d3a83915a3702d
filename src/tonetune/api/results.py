"""Results as a run keeps them: the baselines, and metrics, predictions and confusion of each evaluated split."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.api.audit import refuse_impossible
from tonetune.data.splits import TEST
from tonetune.evaluation.baselines import majority, tfidf, zero_shot_calibrated
from tonetune.evaluation.calibration import log_softmax, softmax
from tonetune.evaluation.metrics import (
    argmax_labels,
    classification_metrics,
    expected_calibration_error,
    reliability_bins,
)
from tonetune.evaluation.mistakes import abstention_curve, mistakes
from tonetune.evaluation.predictions import prediction_rows, split_report, write_confusion
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.rundir import RunDir, read_json, write_json, write_jsonl

# N = texts, C = labels

COMPARED = ("majority", "tfidf", "zero_shot", "zero_shot_calibrated")
"""The baselines that stand beside the tuned model."""


def summary(gold: NDArray[np.int64], predicted: NDArray[np.int64], labels: Sequence[str]) -> dict[str, Any]:
    """Accuracy and macro-F1 with intervals: one row of the table of results."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    return classification_metrics(gold, predicted, labels, rng=rng).summary()


def baseline_report(
    *,
    labels: Sequence[str],
    train_texts: Sequence[str],
    train_gold: NDArray[np.int64],
    test_texts: Sequence[str],
    test_gold: NDArray[np.int64],
    language: str,
    zero_shot_logits: NDArray[np.float32] | None,
    reference_logits: NDArray[np.float32] | None,
    note: str | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a tuned model must beat, all on the same test rows: report.json and predictions.jsonl of eval/baselines.

    `zero_shot_logits` are the label-word logits of the test rows and `reference_logits` those of unlabelled training
    texts; both None where the labels have no words, and `note` then says why.
    """
    predicted = {
        "majority": majority(train_gold, len(test_gold)),
        "tfidf": tfidf(train_texts, train_gold, test_texts, language=language),
    }
    if zero_shot_logits is not None and reference_logits is not None:
        scores_NC, reference_NC = (log_softmax(part, 1.0) for part in (zero_shot_logits, reference_logits))
        predicted["zero_shot"] = argmax_labels(scores_NC)
        predicted["zero_shot_calibrated"] = argmax_labels(zero_shot_calibrated(scores_NC, reference_NC))
    report = {
        "labels": list(labels),
        "n": len(test_gold),
        "zero_shot": None,
        "zero_shot_calibrated": None,
        "zero_shot_note": note,
        **{name: summary(test_gold, indices, labels) for name, indices in predicted.items()},
    }
    columns = {"gold": test_gold, **predicted}
    rows = [
        {"text": text, **{name: labels[indices[i]] for name, indices in columns.items()}}
        for i, text in enumerate(test_texts)
    ]
    return report, rows


def evaluate_split(
    name: str,
    *,
    texts: Sequence[str],
    logits: NDArray[np.float32],
    gold: NDArray[np.int64],
    labels: Sequence[str],
    temperature: float,
    truncated: NDArray[np.bool_],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The documents report.json and predictions.jsonl of one split; probabilities are calibrated.

    Raises GateError where the numbers contradict each other.
    """
    probs_NC, raw_NC = softmax(logits, temperature), softmax(logits, 1.0)
    predicted, confidence = argmax_labels(logits), probs_NC.max(axis=1)
    metrics = classification_metrics(gold, predicted, labels, rng=np.random.default_rng(BOOTSTRAP_SEED))
    report = {
        **split_report(name, labels, metrics, probs_NC, gold, temperature=temperature),
        "uncalibrated": {
            "ece": expected_calibration_error(raw_NC, gold),
            "reliability": reliability_bins(raw_NC, gold),
        },
        "mistakes": mistakes(texts, gold, predicted, confidence, truncated, labels),
        "abstention": abstention_curve(confidence, predicted == gold),
    }
    refuse_impossible(report, where=f"the report on {name}")
    return report, prediction_rows(texts, probs_NC, labels, gold)


def write_evaluation(run: RunDir, name: str, report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write eval/<name>/: report.json, predictions.jsonl, confusion.csv."""
    directory = run.evaluation(name)
    write_jsonl(directory / "predictions.jsonl", rows)
    write_confusion(directory / "confusion.csv", report["confusion"], report["labels"])
    write_json(directory / "report.json", report)


def run_summary(run: RunDir) -> dict[str, Any]:
    """The document that `train --json` prints of a run that is trained.

    Without test rows its "baselines" and "tuned" are None: there is nothing to compare on.
    """
    figures = read_json(run.record)["train"]
    document = {"run": str(run.path), "baselines": None, "tuned": None, "train": figures}
    if (tested := run.evaluation(TEST) / "report.json").is_file():
        baselines = read_json(run.evaluation("baselines") / "report.json")
        document["baselines"] = {name: baselines[name] for name in COMPARED}
        document["tuned"] = read_json(tested)["tuned"]
    return document
