"""P1: matrix products against float64, in every number format that training may use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tonetune.device.probes.result import Measurement
from tonetune.device.speed import product_flops_per_s

# N = rows (tokens), K = inner width, M = outer width

HEALTHY_ERROR = {torch.float32: 1e-6, torch.bfloat16: 1.7e-3, torch.float16: 2.1e-4}
"""Relative Frobenius error of a healthy product: rounding of the result, in float32 also of the sums."""
MOST_TIMES_HEALTHY = 4.0
MOST_SLOPE_ERROR = 1e-3
"""Rounding moves the scale of a product by less than 5e-5."""

SHAPES_NKM = ((64, 8, 640), (64, 640, 8), (128, 640, 2048), (96, 2304, 256))
"""Adapters of rank 8, an MLP and a projection."""
THOROUGH_SHAPES_NKM = (*SHAPES_NKM, (512, 2048, 640), (33, 1536, 12288), (256, 3840, 4096))
FLUSHED = 1e-7
"""Below float16's smallest normal number, 6.1e-5."""

Product = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Accuracy:
    """How far products in one number format are from those in float64, at the worst shape."""

    error: float
    slope_error: float

    def used(self, dtype: torch.dtype) -> float:
        """The larger of both as a part of what is allowed."""
        return max(self.error / (MOST_TIMES_HEALTHY * HEALTHY_ERROR[dtype]), self.slope_error / MOST_SLOPE_ERROR)


def probe_gemm(device: str, *, thorough: bool, product: Product = nn.functional.linear) -> Measurement:
    """Products of normal numbers in each format: error, scale, speed, and whether small float16 numbers survive."""
    shapes = THOROUGH_SHAPES_NKM if thorough else SHAPES_NKM
    found = {dtype: measure_product(dtype, device, shapes, product) for dtype in HEALTHY_ERROR}
    facts: dict[str, float] = {}
    for dtype, accuracy in found.items():
        name = str(dtype).removeprefix("torch.")
        facts |= {f"{name}_error": accuracy.error, f"{name}_slope_error": accuracy.slope_error}
        facts |= {f"{name}_used": accuracy.used(dtype), f"{name}_flops_per_s": product_flops_per_s(dtype, device)}
    facts["float16_keeps_subnormals"] = float(_keeps_subnormals(device, product))
    used = max(accuracy.used(dtype) for dtype, accuracy in found.items())
    return Measurement(used <= 1.0, used, 1.0, _sentence(facts), facts)


def measure_product(
    dtype: torch.dtype, device: str, shapes: tuple[tuple[int, int, int], ...], product: Product
) -> Accuracy:
    """The worst relative Frobenius error, and the worst |slope − 1| of the product over its reference, of all shapes.

    A product that is not finite has both infinite, as a number so large that JSON can hold it.
    """
    rng = torch.Generator().manual_seed(0)
    errors, slopes = [], []
    for rows, inner, outer in shapes:
        left_NK = torch.randn(rows, inner, generator=rng).to(dtype)
        right_MK = torch.randn(outer, inner, generator=rng).to(dtype)
        expected = left_NK.double() @ right_MK.double().T
        found = product(left_NK.to(device), right_MK.to(device)).cpu().double().nan_to_num(1e30, 1e30, -1e30)
        errors.append(float((found - expected).norm() / expected.norm()))
        slopes.append(abs(float((found * expected).sum() / expected.square().sum()) - 1.0))
    return Accuracy(max(errors), max(slopes))


def _keeps_subnormals(device: str, product: Product) -> bool:
    small = torch.full((4, 8), FLUSHED, dtype=torch.float16, device=device)
    return bool((product(small, torch.ones_like(small)) > 0).all())


def _sentence(facts: Mapping[str, float]) -> str:
    parts = []
    for dtype in HEALTHY_ERROR:
        name = str(dtype).removeprefix("torch.")
        speed = facts[f"{name}_flops_per_s"] / 1e12
        parts.append(f"{name}: error {facts[f'{name}_error']:.1e}, scale off by {facts[f'{name}_slope_error']:.0e}, "
                     f"{speed:.3g} TFLOP/s")  # fmt: skip
    if not facts["float16_keeps_subnormals"]:
        parts.append("float16 numbers below 6e-5 become zero")
    return "; ".join(parts)
