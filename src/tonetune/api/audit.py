"""Reported numbers on trial: those of a file, and our own before they are written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tonetune.errors import GateError, listed
from tonetune.evaluation.audit import Finding
from tonetune.evaluation.audit import audit as audit_shares
from tonetune.evaluation.multi_audit import audit_sets
from tonetune.evaluation.reported import FLOAT_DIGITS, Reported, Schedule, interval
from tonetune.labels import MULTI_LABEL
from tonetune.training.schedule import learning_rate_factor

IMPOSSIBLE, POSSIBLE = "impossible", "possible"
SHAPES = {kind: kind for kind in ("constant", "linear", "cosine")} | {"constant_with_warmup": "constant"}


def audit(path: str | Path) -> dict[str, Any]:
    """The document of `audit --json`: whether the numbers in a JSON file can be true together, and what cannot be.

    The file holds any part of what `evaluate --json` prints. Raises DataError for one that is no report.
    """
    reported = Reported.read(Path(path))
    findings = [*_shares(reported), *_learning_rates(reported)]
    return {"verdict": IMPOSSIBLE if findings else POSSIBLE, "findings": [f.as_dict() for f in findings]}


def refuse_impossible(report: Mapping[str, Any], *, where: str) -> None:
    """Raises GateError for a report of ours whose numbers contradict each other."""
    findings = _shares(Reported.of({**report, "decimals": FLOAT_DIGITS}, where=where))
    if findings:
        hint = "this is a bug in tonetune; report it with the predictions of this run"
        raise GateError(listed([f.what for f in findings], 3, separator="; "), where=where, hint=hint)


def _shares(reported: Reported) -> list[Finding]:
    return audit_sets(reported) if reported.task == MULTI_LABEL else audit_shares(reported)


def _learning_rates(reported: Reported) -> Iterator[Finding]:
    """Logged learning rates that their schedule does not have; tools count steps from 0 or 1, so a step is let pass."""
    schedule = reported.schedule
    if schedule is None:
        return
    for logged in reported.learning_rates:
        factors = [_factor_range(step, schedule) for step in (logged.step - 1, logged.step, logged.step + 1)]
        ends = float(schedule.peak) * min(low for low, _ in factors), float(schedule.peak) * max(h for _, h in factors)
        low, high = map(float, interval(logged.lr))
        if high < ends[0] or low > ends[1]:
            part = f"{schedule.warmup_steps} warm-up steps" if logged.step <= schedule.warmup_steps else schedule.kind
            rule = f"with {part} and the peak {schedule.peak} the schedule gives another"
            yield Finding.of(f"learning rate at step {logged.step}", logged.lr, ends, rule=rule, against=["schedule"])


def _factor_range(step: int, schedule: Schedule) -> tuple[float, float]:
    """Least and greatest factor on the peak at a step; anything from 0 to 1 where the schedule does not say."""
    if step < 1:
        return (0.0, 0.0) if schedule.warmup_steps else (1.0, 1.0)
    kind, warmup, total = SHAPES.get(schedule.kind), schedule.warmup_steps, schedule.total_steps
    if step > warmup and kind != "constant" and (kind is None or total is None or total <= warmup):
        return 0.0, 1.0
    if total is not None and step > total:
        return (1.0, 1.0) if kind == "constant" else (0.0, 0.0)
    total_steps = total or max(step, warmup + 1)
    factor = learning_rate_factor(step, total_steps=total_steps, warmup_steps=warmup, schedule=kind or "constant")
    return factor, factor
