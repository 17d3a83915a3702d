"""Predictions and results as they are written to a run: rows of predictions.jsonl, confusion.csv, report.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.evaluation.alarms import alarms
from tonetune.evaluation.metrics import Metrics, argmax_labels, expected_calibration_error, reliability_bins
from tonetune.rundir import whole_file
from tonetune.spreadsheets import csv_writer, spreadsheet_safe

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def prediction_rows(
    texts: Sequence[str], probs_NC: Floats, labels: Sequence[str], gold_N: Ints | None = None
) -> list[dict[str, Any]]:
    """One row per text, in order: text, best label, its probability, all probabilities, and the true label if known."""
    rows: list[dict[str, Any]] = [
        {
            "text": text,
            "label": labels[best],
            "confidence": float(probs_C[best]),
            "scores": dict(zip(labels, probs_C.tolist(), strict=True)),
        }
        for text, best, probs_C in zip(texts, argmax_labels(probs_NC).tolist(), probs_NC, strict=True)
    ]
    if gold_N is not None:
        for row, gold in zip(rows, gold_N.tolist(), strict=True):
            row["gold"] = labels[gold]
    return rows


def said(row: Mapping[str, Any]) -> Any:
    """What a row of predictions.jsonl says of its text, in the form of its "gold": a label, or a list of labels."""
    return row["labels"] if "labels" in row else row["label"]


def split_report(
    split: str, labels: Sequence[str], metrics: Metrics, probs_NC: Floats, gold_N: Ints, *, temperature: float
) -> dict[str, Any]:
    """The document report.json of one split; `probs_NC` are the calibrated probabilities."""
    return {
        "labels": list(labels),
        "split": split,
        "tuned": metrics.summary(),
        "mcc": metrics.mcc,
        "mcc_ci95": list(metrics.mcc_ci95),
        "per_label": metrics.per_label,
        "confusion": metrics.confusion,
        "ece": expected_calibration_error(probs_NC, gold_N),
        "temperature": temperature,
        "reliability": reliability_bins(probs_NC, gold_N),
        "alarms": alarms(np.array(metrics.confusion), labels),
    }


def write_confusion(path: Path, confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> None:
    """Write confusion.csv: labels as header, one row per true class. Raises DiskError where it cannot be written.

    A label that a spreadsheet would run as a formula gets a leading apostrophe.
    """
    cells = [spreadsheet_safe(label) for label in labels]
    with whole_file(path) as file:
        writer = csv_writer(file)
        writer.writerow(["true \\ predicted", *cells])
        writer.writerows([cell, *counts] for cell, counts in zip(cells, confusion, strict=True))


def write_counts(path: Path, per_label: Mapping[str, Mapping[str, Any]]) -> None:
    """Write confusion.csv of a multi-label classifier: one row per label with its four counts of texts."""
    columns = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    with whole_file(path) as file:
        writer = csv_writer(file)
        writer.writerow(["label", *columns])
        writer.writerows(
            [spreadsheet_safe(label), *(row[name] for name in columns)] for label, row in per_label.items()
        )
