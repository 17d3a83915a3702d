"""What was adapted, layer by layer: the same rows of adapters.json for terminal and report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class AdaptedRow:
    """One kind of decoder layer: its numbers, what is adapted in one of them, what is odd, and its parameters."""

    layers: str
    adapted: str
    remarks: list[str]
    parameters: str


def adapted_rows(document: Mapping[str, Any]) -> list[AdaptedRow]:
    """A row for each kind of layer in a document adapters.json, in its order."""
    return [_row(kind) for kind in document["kinds"]]


def _row(kind: Mapping[str, Any]) -> AdaptedRow:
    names = ", ".join(f"{layer['name']} {layer['in']}→{layer['out']}" for layer in kind["adapted"])
    times = f"{len(kind['layers'])} × " if len(kind["layers"]) > 1 else ""
    return AdaptedRow(
        layers=ranges(kind["layers"]) if kind["layers"] else "outside",
        adapted=names or "nothing",
        remarks=kind["remarks"],
        parameters=f"{times}{kind['parameters']:,}",
    )


def ranges(numbers: Sequence[int]) -> str:
    """Rising whole numbers in few characters: 0–2, 5, 7–9."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after > before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after > before + 1), numbers[-1]]
    return ", ".join(f"{a}–{b}" if b > a else str(a) for a, b in zip(starts, ends, strict=True))
