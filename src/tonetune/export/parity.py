"""The parity gate: an export exists only where it gives the classifier's own answers on held-out rows."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import GateError
from tonetune.evaluation.tasks import Answers, Task

# N = texts, C = labels

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Limit:
    """What an export must reach: the share of equal labels and, where asked, the largest difference of a logit.

    `same_ids` is the share of rows that a tokenizer of the export's own must turn into the classifier's token ids.
    """

    agreement: float
    max_abs_logit_diff: float | None = None
    same_ids: float | None = None


EXACT = Limit(0.999, 1e-3)
LIMITS = {
    "float32": EXACT,
    "bfloat16": Limit(0.99),
    "int8": Limit(0.98),
    "int4": Limit(0.98),
    "gguf": Limit(0.97, same_ids=0.99),
}
"""By the number format of the weights; one for every GGUF file, which llama.cpp computes in formats of its own."""


def limit_of(kind: str, precision: str) -> Limit:
    """The limit of an export."""
    return LIMITS[kind if kind in LIMITS else precision]


@dataclass(frozen=True)
class Parity:
    """How an export compares with base and adapter in float32 on the same rows.

    `accuracy_before` and `accuracy_after` come with 95 % intervals of a bootstrap over texts. `same_ids` is the
    share of rows that the export's own tokenizer turns into the same ids, None where it has none.
    """

    rows: int
    max_abs_logit_diff: float
    agreement: float
    accuracy_before: float
    accuracy_before_ci95: tuple[float, float]
    accuracy_after: float
    accuracy_after_ci95: tuple[float, float]
    limit: Limit
    same_ids: float | None = None

    @property
    def passed(self) -> bool:
        largest = math.inf if self.limit.max_abs_logit_diff is None else self.limit.max_abs_logit_diff
        finite = math.isfinite(self.max_abs_logit_diff)
        same_ids = (1.0 if self.same_ids is None else self.same_ids) >= (self.limit.same_ids or 0.0)
        return same_ids and finite and self.max_abs_logit_diff <= largest and self.agreement >= self.limit.agreement

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


def measure_parity(
    task: Task,
    reference_NC: Logits,
    found_NC: Logits,
    gold: Answers,
    limit: Limit,
    *,
    same_ids: float | None = None,
) -> Parity:
    """Compare logits of the same rows; `gold` is what is true of them. Raises ModelError for a logit that is NaN.

    A multi-label export agrees on as many rows as it does for the label whose decisions it changes most.
    """
    answers = [task.decide(logits) for logits in (reference_NC, found_NC)]
    before, after = (task.summary(gold, found, None) for found in answers)
    return Parity(
        rows=len(gold),
        max_abs_logit_diff=float(np.abs(reference_NC - found_NC).max()),
        agreement=float((answers[0] == answers[1]).mean(axis=0).min()),
        accuracy_before=before["accuracy"],
        accuracy_before_ci95=before["accuracy_ci95"],
        accuracy_after=after["accuracy"],
        accuracy_after_ci95=after["accuracy_ci95"],
        limit=limit,
        same_ids=same_ids,
    )


def require_parity(parity: Parity, *, kept: Path) -> None:
    """Raises GateError where the export is not near enough; `kept` is where the report of it is."""
    if parity.passed:
        return
    limit = parity.limit
    allowed = f"at least {limit.agreement:.1%}"
    if limit.max_abs_logit_diff is not None:
        allowed += f" and logits within {limit.max_abs_logit_diff:g}"
    found = "the export"
    if parity.same_ids is not None:
        found += f", whose own tokenizer gives the same ids on {parity.same_ids:.2%} of the rows,"
        allowed += f", and the same ids on {limit.same_ids:.1%}"
    raise GateError(
        f"{found} gives the classifier's label on {parity.agreement:.2%} of {parity.rows:,} held-out rows, and "
        f"logits differ by up to {parity.max_abs_logit_diff:.3g}; {allowed} is asked",
        where=str(kept),
        hint="nothing was exported; choose a wider number format",
    )
