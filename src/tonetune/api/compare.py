"""Two runs on the same test rows: which is better, is that more than noise, and what differs between them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.config import load_config
from tonetune.data.splits import TEST
from tonetune.errors import DataError
from tonetune.evaluation.predictions import said
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.evaluation.tasks import SINGLE_LABEL, task_of
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.report.results import compared
from tonetune.rundir import RunDir, read_json, read_jsonl

EXAMPLES = 10
"""Rows that only one of the runs labels rightly, shown of each."""


def compare(first: str | Path, second: str | Path, *, split: str = TEST) -> dict[str, Any]:
    """The document of `compare --json`: `difference` is the second run's metric on `split` less the first's.

    "difference", "ci95" and "p_value" are keyed by metric; "config_diff" has both values of each key that differs;
    "rows" has the texts that only the second ("won") or only the first ("lost") labels rightly. Raises DataError
    where a run has no predictions of the split, or where those are not of the same rows.
    """
    runs = [RunDir.open(path) for path in (first, second)]
    rows = [read_jsonl(run.evaluation(split) / "predictions.jsonl") for run in runs]
    several = {"labels" in row for part in rows for row in part[:1]}
    if len(several) > 1:
        raise DataError("one run gives a text one label, the other any number", where=f"{first}, {second}")
    pairs = _matched(*rows, where=f"{first}, {second}")
    labels = sorted(read_json(runs[0].labels)["names"])
    if labels != sorted(read_json(runs[1].labels)["names"]):
        raise DataError("the runs have different labels", where=f"{first}, {second}")
    task = task_of(MULTI_LABEL if several == {True} else SINGLE_LABEL, LabelSet(tuple(labels)))
    columns = zip(*((one["gold"], said(one), said(other)) for one, other in pairs), strict=True)
    gold, before, after = (task.numbered(column) for column in columns)
    result = task.paired(gold, before, after, rng=np.random.default_rng(BOOTSTRAP_SEED))
    return {
        "runs": [str(run.path) for run in runs],
        "n": len(pairs),
        **result.as_dict(),
        "verdict": compared(result),
        "config_diff": _config_diff(*(load_config(run.config).flat() for run in runs)),
        "rows": {
            "won": {"count": result.won, "examples": _examples(pairs, right=1)},
            "lost": {"count": result.lost, "examples": _examples(pairs, right=0)},
        },
    }


def _matched(
    first: list[dict[str, Any]], second: list[dict[str, Any]], *, where: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of predictions for the same text, whatever the order of the files."""
    keyed = [sorted((row["text"], _key(row["gold"]), i) for i, row in enumerate(rows)) for rows in (first, second)]
    texts = [[(text, gold) for text, gold, _ in rows] for rows in keyed]
    if texts[0] != texts[1]:
        shared = len(set(texts[0]) & set(texts[1]))
        raise DataError(
            f"the runs were tested on different rows: {len(first):,} and {len(second):,}, {shared:,} of them in both",
            where=where,
            hint="train both on the same files with the same train.seed, or name a test file in data.test",
        )
    return [(first[i], second[j]) for (*_, i), (*_, j) in zip(*keyed, strict=True)]


def _key(gold: str | Sequence[str]) -> tuple[str, ...]:
    """One label, or several whatever their order."""
    return (gold,) if isinstance(gold, str) else tuple(sorted(gold))


def _examples(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], *, right: int) -> list[dict[str, Any]]:
    """Texts that only the first (0) or only the second (1) labels rightly, those it is surest of first."""
    found = [pair for pair in pairs if _right(pair[right]) and not _right(pair[1 - right])]
    found.sort(key=lambda pair: -pair[right]["confidence"])
    return [
        {"text": one["text"], "gold": one["gold"], "first": said(one), "second": said(other)}
        for one, other in found[:EXAMPLES]
    ]


def _right(row: Mapping[str, Any]) -> bool:
    return _key(said(row)) == _key(row["gold"])


def _config_diff(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Both values of each key that differs."""
    return {key: [value, second[key]] for key, value in first.items() if value != second[key]}
