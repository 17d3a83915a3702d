"""From labelled files, or a run, to the rows whose labels a person should look at again."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.annotate.noise import doubtful, out_of_fold
from tonetune.api.rows import prepare_rows
from tonetune.config import RunConfig
from tonetune.data.example import Example
from tonetune.data.language import dominant_language
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.data.splits import HELD_OUT
from tonetune.errors import DataError
from tonetune.evaluation.single_label import SingleLabel
from tonetune.labels import LabelSet
from tonetune.rundir import RunDir, read_json, read_jsonl, whole_file, write_jsonl
from tonetune.spreadsheets import csv_writer, spreadsheet_safe

FOLDS = 5
SEVERAL = "rows may have several labels; noise is found where each has one"
ONE_EACH = "name files of rows with one label each"
COLUMNS = ("origin", "text", "label", "suggested", "score")

# N = texts, C = labels


def noise(
    config: RunConfig, *, run: Path | None = None, folds: int = FOLDS, options: ReadOptions = AS_FOUND
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `annotate noise --json`, and the doubtful rows, the worst first.

    Each row of the training files of `config` is judged by TF-IDF with logistic regression trained on the other folds;
    with a `run`, its validation and test rows are judged by the tuned model, which was not trained on them. A row is
    its origin, its text and label, the label that fits better, and as score the probability of the given one.
    Raises DataError for rows of several labels, MissingExtraError without the extra `noise`.
    """
    labels, examples, probs_NC = _folded(config, folds, options) if run is None else _held_out(RunDir.open(run))
    gold_N = SingleLabel(labels).gold(examples)
    rows = [
        {
            "origin": examples[doubt.row].origin,
            "text": examples[doubt.row].text,
            "label": examples[doubt.row].label,
            "suggested": labels.names[doubt.suggested],
            "score": doubt.score,
        }
        for doubt in doubtful(gold_N, probs_NC)
    ]
    pairs = Counter((row["label"], row["suggested"]) for row in rows)
    document = {
        "texts": len(examples),
        "doubtful": len(rows),
        "judged_by": "tfidf" if run is None else str(run),
        "pairs": [{"label": a, "suggested": b, "count": count} for (a, b), count in pairs.most_common()],
    }
    return document, rows


Judged = tuple[LabelSet, list[Example], NDArray[np.float64]]
"""Labels, rows, and the probabilities of their labels by a model that had not seen them, shape (N, C)."""


def _folded(config: RunConfig, folds: int, options: ReadOptions) -> Judged:
    """The rows of the training files, each judged by the other folds."""
    prepared = prepare_rows(config, allow_leaks=True, options=options)
    if prepared.multi_label:
        where = ", ".join([files] if isinstance(files := config.data.train or "data.train", str) else files)
        raise DataError(SEVERAL, where=where, hint=ONE_EACH)
    labels, examples = prepared.label_set, [e for part in prepared.splits.values() for e in part]
    texts = [example.text for example in examples]
    probs_NC = out_of_fold(
        texts,
        SingleLabel(labels).gold(examples),
        num_labels=len(labels),
        language=dominant_language(texts),
        folds=folds,
        rng=np.random.default_rng(config.train.seed),
    )
    return labels, examples, probs_NC


def _held_out(run: RunDir) -> Judged:
    """The rows that a run kept from training, judged by its tuned model."""
    labels = LabelSet(tuple(read_json(run.labels)["names"]))
    examples: list[Example] = []
    scores: list[list[float]] = []
    for split in HELD_OUT:
        if not run.split(split).exists():
            continue
        rows = read_jsonl(run.evaluation(split) / "predictions.jsonl")
        if rows and not isinstance(rows[0]["gold"], str):
            raise DataError(SEVERAL, where=str(run.path), hint=ONE_EACH)
        examples += map(Example.from_row, read_jsonl(run.split(split)))
        scores += [[row["scores"][name] for name in labels.names] for row in rows]
    if not examples or len(examples) != len(scores):
        hint = "name files of rows instead"
        raise DataError("there is no prediction for each held-out row", where=str(run.path), hint=hint)
    return labels, examples, np.array(scores)


def write_doubts(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows as .jsonl or .csv, whole or not at all. Raises DiskError."""
    if path.suffix == ".jsonl":
        write_jsonl(path, rows)
        return
    with whole_file(path) as file:
        writer = csv_writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([spreadsheet_safe(str(row[name])) for name in COLUMNS] for row in rows)
