"""Finding the module that first computes something that is not finite."""

import math
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class FirstNonFinite:
    """Watches the outputs of a model's modules while it is entered.

    `name` is the dotted name of the first module whose output was not finite, the innermost where several are nested;
    None if there was none. `largest` is the largest magnitude of what was finite.
    """

    def __init__(self, model: nn.Module) -> None:
        self.name: str | None = None
        self.largest = 0.0
        self._model = model
        self._handles: list[Any] = []

    def __enter__(self) -> "FirstNonFinite":
        self._handles = [m.register_forward_hook(self._hook(name)) for name, m in self._model.named_modules()]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> Any:
        def look(module: nn.Module, inputs: object, output: object) -> None:
            for tensor in tree_leaves(output):
                if self.name is None and isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.numel():
                    largest = float(tensor.detach().abs().max())
                    if math.isfinite(largest):
                        self.largest = max(self.largest, largest)
                    else:
                        self.name = name

        return look
