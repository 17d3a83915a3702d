"""P2: Gemma's RMSNorm from small to large inputs, against float64."""

from collections.abc import Callable

import torch
from torch import Tensor

from tonetune.device.probes.gemm import HEALTHY_ERROR, MOST_TIMES_HEALTHY
from tonetune.device.probes.result import Measurement

# N = tokens, D = hidden width

SCALES = (1e-4, 1e-2, 1.0, 300.0, 1e4)
"""The square of 300 is more than float16 holds."""
EPSILON = 1e-6

Norm = Callable[[Tensor, Tensor], Tensor]


def gemma_norm(hidden_ND: Tensor, weight_D: Tensor) -> Tensor:
    """The norm of Gemma 1 to 3 as transformers computes it, which multiplies by 1 + weight."""
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

    layer = Gemma3RMSNorm(hidden_ND.shape[1], eps=EPSILON).to(hidden_ND.device, hidden_ND.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight_D)
        normed_ND: Tensor = layer(hidden_ND)
    return normed_ND


def probe_norm(device: str, *, thorough: bool, norm: Norm = gemma_norm) -> Measurement:
    """Norms of normal numbers at every scale and in every format; the worst error as a part of what is allowed."""
    rng = torch.Generator().manual_seed(0)
    width = 3840 if thorough else 640
    used: dict[str, float] = {}
    for dtype, healthy in HEALTHY_ERROR.items():
        for scale in SCALES:
            hidden_ND = (torch.randn(16, width, generator=rng) * scale).to(dtype)
            weight_D = (torch.randn(width, generator=rng) * 0.1).to(dtype)
            exact = hidden_ND.double()
            expected = (
                exact * torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + EPSILON) * (1.0 + weight_D.double())
            )
            found = norm(hidden_ND.to(device), weight_D.to(device)).cpu().double().nan_to_num(1e30, 1e30, -1e30)
            error = float((found - expected).norm() / expected.norm())
            used[f"{dtype} at inputs around {scale:g}".removeprefix("torch.")] = error / (MOST_TIMES_HEALTHY * healthy)
    worst = max(used, key=lambda case: used[case])
    return Measurement(used[worst] <= 1.0, used[worst], 1.0, f"the largest error is that of {worst}")
