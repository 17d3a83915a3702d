"""What a computation holds in memory and how much it computes, without doing it."""

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

BLOCK_BYTES = 512
"""What torch's allocator on a GPU rounds up to."""


@contextlib.contextmanager
def without_data() -> Iterator[None]:
    """Tensors made inside have a shape, a format and a device but no data, so that any model runs in no time.

    Kernels are chosen as they are for the device. Two functions of transformers are replaced meanwhile: one looks at
    data to see whether several texts stand in one row, and makes masks where it cannot look; here it is told that none
    do. The other says whether torch multiplies the experts of a layer at once, which torch 2.13 does in every
    number format with data, and in bfloat16 alone without.
    """
    from transformers import masking_utils
    from transformers.integrations import moe

    can_group = moe._can_use_grouped_mm

    def groups(input: Tensor, weight: Tensor, offs: Tensor) -> bool:
        return weight.dtype == torch.bfloat16 and can_group(input, weight, offs)

    with (
        _instead(masking_utils, "find_packed_sequence_indices", lambda position_ids: None),
        _instead(moe, "_can_use_grouped_mm", groups),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        yield


@contextlib.contextmanager
def _instead(module: ModuleType, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, replacement)
    try:
        yield
    finally:
        setattr(module, name, before)


class Trace(TorchDispatchMode):
    """Follows the operations that run while it is entered.

    `live_bytes` counts the storages of all tensors that they made and that are still held, `peak_bytes` the most at
    once, `flops` the floating-point operations of matrix products and attention. Storages of `existing` tensors are
    left out, even where an operation returns a view of them.
    """

    def __init__(self, existing: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live_bytes = self.peak_bytes = self.flops = 0
        self._existing = [tensor.untyped_storage() for tensor in existing]
        self._seen = {id(storage) for storage in self._existing}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if count := flop_registry.get(func.overloadpacket):
            self.flops += count(*_with_equal_heads(func, args), **kwargs, out_val=out)
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._hold(leaf.untyped_storage())
        return out

    def _hold(self, storage: UntypedStorage) -> None:
        key = id(storage)  # one object for as long as any tensor has the storage
        if key in self._seen:
            return
        num_bytes = -(-storage.nbytes() // BLOCK_BYTES) * BLOCK_BYTES
        self._seen.add(key)
        self.live_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(storage, self._release, key, num_bytes)

    def _release(self, key: int, num_bytes: int) -> None:
        self._seen.discard(key)
        self.live_bytes -= num_bytes


def _with_equal_heads(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments for torch's counters, which before 2.13 refuse attention whose keys have fewer heads than its queries:
    shapes in which each query has a key of its own. As many products are computed either way.
    """
    if "scaled_dot_product" not in str(func):
        return args
    states = [arg.shape for arg in args if isinstance(arg, Tensor) and arg.ndim == 4]
    heads = max(shape[1] for shape in states)
    return tuple(
        torch.Size((arg.shape[0], heads, *arg.shape[2:])) if isinstance(arg, Tensor) and arg.ndim == 4 else arg
        for arg in args
    )
