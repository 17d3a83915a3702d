"""What a model learnt and forgot of the validation texts on its way: their predictions at every validation."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.evaluation.predictions import said
from tonetune.rundir import read_jsonl

EXAMPLES = 10

Rows = list[dict[str, Any]]


def steps_of(directory: Path, *, until: int) -> dict[int, Rows]:
    """Rows of the files step-N.jsonl by step, in order, up to the step that was kept."""
    found = [(int(match[1]), path) for path in directory.glob("step-*.jsonl")
             if (match := re.fullmatch(r"step-(\d+)\.jsonl", path.name))]  # fmt: skip
    return {step: read_jsonl(path) for step, path in sorted(found) if step <= until}


def history(steps: Mapping[int, Rows]) -> dict[str, Any] | None:
    """How the texts fared from the first validation to the last; None before two validations.

    "always" right (at first and at last, whatever happened between), "learnt" (wrong at first, right at last),
    "forgotten" (right once, wrong at last), "never" right: each with a count and the surest examples of the last.
    """
    if len(steps) < 2:
        return None
    last = list(steps.values())[-1]
    right_SN = np.array([[said(row) == row["gold"] for row in rows] for rows in steps.values()])
    groups = {
        "always": right_SN[0] & right_SN[-1],
        "learnt": ~right_SN[0] & right_SN[-1],
        "forgotten": right_SN.any(axis=0) & ~right_SN[-1],
        "never": ~right_SN.any(axis=0),
    }
    return {
        "steps": list(steps),
        **{
            name: {"count": int(inside.sum()), "examples": _examples(last, inside.nonzero()[0].tolist())}
            for name, inside in groups.items()
        },
    }


def _examples(rows: Rows, chosen: Sequence[int]) -> Rows:
    """The surest of the chosen rows."""
    return sorted((rows[i] for i in chosen), key=lambda row: -float(row["confidence"]))[:EXAMPLES]
