"""Micro-batches of similar lengths that cost least; numpy alone, as the torch-free runtime needs it."""

import numpy as np
from numpy.typing import NDArray


def cut(lengths: NDArray[np.int64], *, budget_tokens: int, call_tokens: int) -> list[NDArray[np.int64]]:
    """Cut texts into micro-batches that cost least: indices into `lengths`, similar lengths together.

    A micro-batch of k texts whose longest has T tokens costs k · T + `call_tokens`, the fixed cost of one call in
    tokens, and may hold at most `budget_tokens` (a single longer text stands alone). Exact by dynamic programming
    over the texts in order of length, O(N · texts per micro-batch).
    """
    order = np.argsort(lengths, kind="stable")
    widths = lengths[order]
    best = np.zeros(len(order) + 1)
    start = np.zeros(len(order) + 1, dtype=np.int64)
    for end in range(1, len(order) + 1):
        width = int(widths[end - 1])
        fewest = max(0, end - max(1, budget_tokens // width))
        begins = np.arange(fewest, end)
        costs = best[begins] + (end - begins) * width + call_tokens
        choice = int(costs.argmin())
        best[end], start[end] = costs[choice], begins[choice]
    parts: list[NDArray[np.int64]] = []
    end = len(order)
    while end > 0:
        parts.append(order[start[end] : end])
        end = int(start[end])
    return parts[::-1]
