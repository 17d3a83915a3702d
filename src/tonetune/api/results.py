"""Results as a run keeps them: the baselines, and metrics, predictions and confusion of each evaluated split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.api.audit import refuse_impossible
from tonetune.data.splits import TEST
from tonetune.evaluation.predictions import write_confusion, write_counts
from tonetune.evaluation.tasks import Answers, Logits, Task, Texts
from tonetune.rundir import RunDir, read_json, write_json, write_jsonl

# N = texts, C = labels

COMPARED = ("majority", "tfidf", "zero_shot", "zero_shot_calibrated")
"""The baselines that stand beside the tuned model."""


@dataclass(frozen=True)
class Labelled:
    """Texts and what is true of them."""

    texts: Texts
    gold: Answers


@dataclass(frozen=True)
class Scored:
    """Scores of the test texts, shape (N, C), and of the validation texts where the task fits its answers to them."""

    test: Logits
    validation: Logits | None = None


def baseline_report(
    task: Task,
    *,
    train: Labelled,
    validation: Labelled,
    test: Labelled,
    language: str,
    zero_shot: Mapping[str, Scored],
    note: str | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a tuned model must beat, all on the same test rows: report.json and predictions.jsonl of eval/baselines.

    `zero_shot` has the scores behind "zero_shot" and "zero_shot_calibrated"; nothing where the labels have no words,
    and `note` then says why.
    """
    answers: dict[str, tuple[Answers, Logits | None]] = {
        "majority": (task.majority(train.gold, len(test.texts)), None),
        "tfidf": task.tfidf(
            (train.texts, train.gold), (validation.texts, validation.gold), test.texts, language=language
        ),
    }
    for name, scored in zero_shot.items():
        fitted = task if scored.validation is None else task.decided(scored.validation, validation.gold)
        answers[name] = fitted.decide(scored.test), scored.test
    report = {
        "labels": list(task.label_set.names),
        "n": len(test.texts),
        "zero_shot": None,
        "zero_shot_calibrated": None,
        "zero_shot_note": note,
        **{name: task.summary(test.gold, found, scores) for name, (found, scores) in answers.items()},
    }
    columns = {"gold": test.gold, **{name: found for name, (found, _) in answers.items()}}
    named = {name: task.named(column) for name, column in columns.items()}
    return report, [
        {"text": text, **{name: names[i] for name, names in named.items()}} for i, text in enumerate(test.texts)
    ]


def evaluate_split(
    task: Task, name: str, *, texts: Sequence[str], logits: Logits, gold: Answers, truncated: NDArray[np.bool_]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The documents report.json and predictions.jsonl of one split; probabilities are calibrated.

    Raises GateError where the numbers contradict each other.
    """
    report = task.report(name, texts, logits, gold, truncated)
    refuse_impossible(report, where=f"the report on {name}")
    return report, task.rows(texts, task.probs(logits), gold)


def write_evaluation(run: RunDir, name: str, report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write eval/<name>/: report.json, predictions.jsonl, confusion.csv."""
    directory = run.evaluation(name)
    write_jsonl(directory / "predictions.jsonl", rows)
    if "confusion" in report:
        write_confusion(directory / "confusion.csv", report["confusion"], report["labels"])
    else:
        write_counts(directory / "confusion.csv", report["per_label"])
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
