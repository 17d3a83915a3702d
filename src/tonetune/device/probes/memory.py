"""P5 and P9: pinned copies that arrive whole, and the largest block of memory that can be had at once."""

from collections.abc import Callable

import psutil
import torch
from torch import Tensor

from tonetune.device.memory import ran_out
from tonetune.device.probes.result import Measurement, NothingToMeasure

PINNED_BYTES = 64 << 20
MOST_HOST_BYTES = 1 << 30
"""A block that no training needs more of on a CPU; a larger one would take memory from other programs."""
LEAST_PART = 0.8
STEPS = 6
GIB = 2.0**30


def pinned_copy(source: Tensor, device: str) -> Tensor:
    """`source` on the device, through pinned memory and without waiting."""
    return source.pin_memory().to(device, non_blocking=True)


def probe_pinned(device: str, *, thorough: bool, copy: Callable[[Tensor, str], Tensor] = pinned_copy) -> Measurement:
    """Copy 64 MiB and compare every byte."""
    if device != "cuda":
        raise NothingToMeasure("there is no GPU to copy to")
    return compare_copy(device, copy)


def compare_copy(device: str, copy: Callable[[Tensor, str], Tensor]) -> Measurement:
    """Bytes that differ after a copy to `device`; none may."""
    source = torch.randint(0, 256, (PINNED_BYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    copied = copy(source, device)
    if device == "cuda":
        torch.cuda.synchronize()
    changed = int((copied.cpu() != source).sum())
    return Measurement(changed == 0, float(changed), 0.0, f"{changed:,} of {PINNED_BYTES:,} bytes changed")


def touched_block(num_bytes: int, device: str) -> None:
    """Allocate a block and write all of it."""
    torch.empty(num_bytes, dtype=torch.uint8, device=device).fill_(1)


def probe_largest_block(
    device: str, *, thorough: bool, allocate: Callable[[int, str], None] = touched_block
) -> Measurement:
    """The largest block by bisection, of the memory that is free; on a CPU only some of it is tried."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0]
        tried = free
    else:
        free = psutil.virtual_memory().available
        tried = min(free // 2, MOST_HOST_BYTES)
    largest = bisect_block(tried, device, allocate)
    detail = f"{largest / GIB:.1f} GiB at once of {tried / GIB:.1f} GiB tried, {free / GIB:.1f} GiB free"
    least = LEAST_PART * tried
    return Measurement(largest >= least, largest / GIB, least / GIB, detail, {"free_gib": free / GIB})


def bisect_block(tried: int, device: str, allocate: Callable[[int, str], None]) -> int:
    """Bytes of the largest block up to `tried` that can be allocated, to one part in 2^6."""

    def fits(num_bytes: int) -> bool:
        try:
            allocate(num_bytes, device)
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            return False
        finally:
            if device == "cuda":
                torch.cuda.empty_cache()
        return True

    if fits(tried):
        return tried
    low, high = 0, tried
    for _ in range(STEPS):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
