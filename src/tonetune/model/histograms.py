"""Histograms of trained weights, before and after: what training did to the adapter and the head."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tonetune.model.classifier import HEAD

BINS = 41
"""An odd number, so that zero is in the middle of a bin."""


def weight_histograms(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Counts of weights in `BINS` equal bins around zero by kind (A, B, magnitude, head), of two snapshots.

    Each kind has the "edges" of its bins, the counts "before" and "after", and as "norm" the Euclidean norm of each
    and of the change.
    """
    kinds: dict[str, list[str]] = {}
    for name in after:
        kinds.setdefault(_kind(name), []).append(name)
    return {kind: _histogram(before, after, names) for kind, names in sorted(kinds.items())}


def _kind(name: str) -> str:
    if name == HEAD:
        return "head"
    found = re.search(r"\.lora_([A-Za-z]+)", name)
    return found[1] if found else name


def _histogram(before: Mapping[str, Tensor], after: Mapping[str, Tensor], names: list[str]) -> dict[str, Any]:
    old_N, new_N = (torch.cat([part[name].flatten().float() for name in names]) for part in (before, after))
    end = max(float(old_N.abs().max()), float(new_N.abs().max())) or 1.0

    def counts(values_N: Tensor) -> list[int]:
        return [int(count) for count in torch.histc(values_N, BINS, -end, end).tolist()]

    norms = {"before": old_N, "after": new_N, "change": new_N - old_N}
    return {
        "edges": torch.linspace(-end, end, BINS + 1).tolist(),
        "before": counts(old_N),
        "after": counts(new_N),
        "norm": {name: float(values_N.norm()) for name, values_N in norms.items()},
    }
