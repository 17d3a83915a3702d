"""The data set on the device: one ragged array of token ids, batches gathered by index, micro-batches cut by tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# B = texts in the batch, T = tokens of the longest


@dataclass(frozen=True)
class Batch:
    """`ids_BT` (int64) and `mask_BT` (bool, True on real tokens), padded on the right; `rows_B` (int64) of the store.

    All on the store's device.
    """

    ids_BT: Tensor
    mask_BT: Tensor
    rows_B: Tensor


class TokenStore:
    """Token ids of all texts, flat on the device; `lengths[i]` (host) is the number of tokens of text i."""

    def __init__(self, ids: Sequence[NDArray[np.int32]], *, pad_id: int, device: torch.device) -> None:
        self.lengths: NDArray[np.int64] = np.array([len(row) for row in ids], dtype=np.int64)
        self.pad_id = pad_id
        self.device = device
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]) if len(ids) else np.zeros(0, dtype=np.int64)
        flat = np.concatenate(list(ids)) if len(ids) else np.zeros(0, dtype=np.int32)
        self._flat = torch.from_numpy(flat).to(device)
        self._starts = torch.from_numpy(starts.astype(np.int64)).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Gather `rows` into one right-padded batch as wide as its longest text; no copy leaves the device."""
        width = int(self.lengths[rows].max())
        rows_B = torch.from_numpy(rows).to(self.device)
        offsets_T = torch.arange(width, device=self.device)
        mask_BT = offsets_T < self._lengths[rows_B, None]
        places_BT = (self._starts[rows_B, None] + offsets_T).clamp(max=len(self._flat) - 1)
        ids_BT = torch.where(mask_BT, self._flat[places_BT].long(), self.pad_id)
        return Batch(ids_BT, mask_BT, rows_B)


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
