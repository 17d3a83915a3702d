"""The data set on the device: one ragged array of token ids, batches gathered by index."""

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
