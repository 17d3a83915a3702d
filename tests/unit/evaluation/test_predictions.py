"""Laws of the files that carry predictions and results."""

import csv
import json

import numpy as np
import pytest

from tonetune.evaluation.metrics import classification_metrics
from tonetune.evaluation.predictions import prediction_rows, split_report, write_confusion
from tonetune.spreadsheets import spreadsheet_safe

LABELS = ("joy", "anger")
PROBS = np.array([[0.75, 0.25], [0.1, 0.9], [0.6, 0.4]])
GOLD = np.array([0, 1, 1])


def test_one_row_per_text_in_order():
    rows = prediction_rows(["a", "b", "c"], PROBS, LABELS, GOLD)
    assert [row["text"] for row in rows] == ["a", "b", "c"]
    assert rows[1] == {
        "text": "b", "label": "anger", "confidence": 0.9, "scores": {"joy": 0.1, "anger": 0.9}, "gold": "anger",
    }  # fmt: skip
    assert all(row["scores"][row["label"]] == row["confidence"] == max(row["scores"].values()) for row in rows)
    assert json.loads(json.dumps(rows)) == rows


def test_rows_without_truth_have_no_gold():
    assert "gold" not in prediction_rows(["a"], PROBS[:1], LABELS)[0]


def test_texts_and_probabilities_must_match():
    with pytest.raises(ValueError, match=r"zip\(\)"):
        prediction_rows(["a"], PROBS, LABELS)


def test_split_report_agrees_with_its_predictions():
    predicted = PROBS.argmax(axis=1)
    metrics = classification_metrics(GOLD, predicted, LABELS, rng=np.random.default_rng(0))
    report = split_report("test", LABELS, metrics, PROBS, GOLD, temperature=1.5)
    assert report["tuned"]["accuracy"] == pytest.approx(2 / 3)
    assert report["confusion"] == [[1, 0], [1, 1]]
    assert report["ece"] == pytest.approx(np.mean([0.25, 0.1, 0.6]))  # three bins of one text
    assert sum(b["count"] for b in report["reliability"]) == 3
    assert (report["labels"], report["split"], report["temperature"]) == (["joy", "anger"], "test", 1.5)
    assert json.loads(json.dumps(report)) == report


def test_confusion_file_cannot_run_formulas(tmp_path):
    labels = ("=1+1", "@x", "plain, with comma")
    write_confusion(tmp_path / "confusion.csv", [[1, 2, 3], [4, 5, 6], [7, 8, 9]], labels)
    with open(tmp_path / "confusion.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][1:] == ["'=1+1", "'@x", "plain, with comma"] == [row[0] for row in rows[1:]]
    assert [[int(cell) for cell in row[1:]] for row in rows[1:]] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_every_formula_start_is_escaped(start):
    assert spreadsheet_safe(f"{start}x") == f"'{start}x"
    assert spreadsheet_safe(f"x{start}") == f"x{start}"
