"""The order of the data: which rows each optimiser step takes, and how to find the place again."""

import copy
import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.errors import TrainingError


class Order:
    """Rows of each optimiser step: a fresh shuffle for every pass over `num_texts`, cut into batches."""

    def __init__(self, num_texts: int, batch: int, rng: np.random.Generator) -> None:
        self._num_texts, self._batch, self._rng = num_texts, batch, rng
        self._pass, self._before = -1, rng.bit_generator.state
        self._rows_N: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def rows(self, step: int) -> NDArray[np.int64]:
        """The rows of a step, counted from 1; steps are asked for in order."""
        number, place = divmod(step - 1, math.ceil(self._num_texts / self._batch))
        while self._pass < number:
            self._shuffle()
        return self._rows_N[place * self._batch : (place + 1) * self._batch]

    def _shuffle(self) -> None:
        self._before = copy.deepcopy(self._rng.bit_generator.state)
        self._rows_N = self._rng.permutation(self._num_texts)
        self._pass += 1

    def state(self) -> dict[str, Any]:
        """The pass, the generator before its shuffle, and a checksum of what that gave; for JSON."""
        return {"pass": self._pass, "generator": self._before, "sha256": self._checksum()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Shuffle that pass again. Raises TrainingError where the order is another: by rows, or by numpy's doing."""
        self._rng.bit_generator.state = state["generator"]
        self._pass = state["pass"] - 1
        self._shuffle()
        if self._checksum() != state["sha256"]:
            raise TrainingError(
                "the rows of the next steps are not those that were left: the checkpoint's shuffle gives another order",
                where="the order of the data",
                hint="use the versions of numpy and tonetune in env.json, or train anew",
            )

    def _checksum(self) -> str:
        return hashlib.sha256(self._rows_N.astype("<i8").tobytes()).hexdigest()


def batches(num_texts: int, batch: int, num_steps: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """The rows of `num_steps` steps, see `Order`."""
    order = Order(num_texts, batch, rng)
    return (order.rows(step) for step in range(1, num_steps + 1))
