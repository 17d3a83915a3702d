"""How fast this device multiplies matrices."""

import time

import torch

SHAPE_NKM = {"cuda": (8192, 4096, 4096)}
SMALL_SHAPE_NKM = (256, 640, 2048)
"""The MLP of a small body: what a CPU multiplies in about 10 ms."""
LAPS = 8


def product_flops_per_s(dtype: torch.dtype, device: str) -> float:
    """Floating-point operations a second in the best of a few products, 2 N K M each; about 0.1 s on a CPU."""
    rows, inner, outer = SHAPE_NKM.get(device, SMALL_SHAPE_NKM)
    left, right = (
        torch.ones(rows, inner, dtype=dtype, device=device),
        torch.ones(outer, inner, dtype=dtype, device=device),
    )
    laps = []
    for _ in range(LAPS):
        _wait(device)
        began_s = time.perf_counter()
        torch.nn.functional.linear(left, right)
        _wait(device)
        laps.append(time.perf_counter() - began_s)
    return 2.0 * rows * inner * outer / min(laps)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()
