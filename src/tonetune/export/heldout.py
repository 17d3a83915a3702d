"""The rows that an export is compared on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tonetune.evaluation.tasks import Answers
from tonetune.rundir import writing

KEPT_ROWS = 200
"""Rows whose ids and logits stay in the bundle, so that any later runtime can be checked."""


@dataclass(frozen=True)
class Heldout:
    """Rows that were not trained on: texts, their token ids, true labels, the classifier's logits in float32."""

    texts: list[str]
    ids: list[NDArray[np.int32]]
    gold: Answers
    logits: NDArray[np.float32]

    def write(self, path: Path) -> None:
        """Write the first `KEPT_ROWS` as safetensors: ids one after the other, lengths, gold and logits."""
        ids, rows = self.ids[:KEPT_ROWS], slice(KEPT_ROWS)
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        tensors: dict[str, NDArray[Any]] = {
            "ids": np.concatenate(ids),
            "lengths": lengths,
            "gold": self.gold[rows].astype(np.int64),
            "logits": self.logits[rows],
        }
        with writing(path):
            save_file(tensors, path)

    def share_of_same(self, ids: Sequence[NDArray[np.int32]]) -> float:
        """The share of rows that another tokenizer turned into the same ids."""
        return float(np.mean([np.array_equal(a, b) for a, b in zip(self.ids, ids, strict=True)]))
