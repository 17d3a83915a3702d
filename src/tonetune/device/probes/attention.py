"""P4: attention as transformers computes it with torch's fused kernels, forward and backward, against float64."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tonetune.device.choose import choose_cudnn_attention, settle_cudnn_attention
from tonetune.device.probes.result import Measurement

# B = texts, H = heads, G = heads of keys and values, T = tokens, E = width of a head

HEALTHY_ERROR = {torch.float32: 1e-6, torch.bfloat16: 5e-3}
"""Relative Frobenius error of the worst of output and gradients. A gradient passes through two rounded products."""
MOST_TIMES_HEALTHY = 4.0
TEXTS, HEADS, KV_HEADS = 2, 4, 2
WINDOW = 512

Grid = tuple[tuple[torch.dtype, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]
QUICK: Grid = (tuple(HEALTHY_ERROR), (256,), (16, 129), ("causal", "left", "right"))
THOROUGH: Grid = (tuple(HEALTHY_ERROR), (256, 512), (16, 511, 513, 1024), ("causal", "left", "right", "window"))
"""Formats, widths of a head, tokens, masks."""

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Case:
    """One way to call attention. `mask` is "causal" (no mask given), "left" or "right" (padded), or "window"."""

    dtype: torch.dtype
    width: int
    tokens: int
    mask: str

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}, head width {self.width}, {self.tokens} tokens, {self.mask}"


def cases(*, thorough: bool) -> list[Case]:
    """Every combination that training and scoring meet; few of them for the short selection."""
    return list(itertools.starmap(Case, itertools.product(*(THOROUGH if thorough else QUICK))))


def fused_attention(query_BHTE: Tensor, key_BGTE: Tensor, value_BGTE: Tensor, mask_BTT: Tensor | None) -> Tensor:
    """Causal attention by transformers' "sdpa", (B, H, T, E). A mask is True where a query may look, never ahead."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    module = SimpleNamespace(num_key_value_groups=HEADS // KV_HEADS, is_causal=True)
    mask_B1TT = None if mask_BTT is None else mask_BTT[:, None]
    out_BTHE: Tensor = sdpa_attention_forward(cast(Any, module), query_BHTE, key_BGTE, value_BGTE, mask_B1TT)[0]
    return out_BTHE.transpose(1, 2)


def exact_attention(query_BHTE: Tensor, key_BGTE: Tensor, value_BGTE: Tensor, mask_BTT: Tensor) -> Tensor:
    """The same in plain operations. A query that may look nowhere gets zeros."""
    key_BHTE, value_BHTE = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (key_BGTE, value_BGTE))
    scores_BHTT = query_BHTE @ key_BHTE.transpose(2, 3) / query_BHTE.shape[-1] ** 0.5
    hidden_B1TT = ~mask_BTT[:, None]
    weights_BHTT = scores_BHTT.masked_fill(hidden_B1TT, -1e30).softmax(dim=-1).masked_fill(hidden_B1TT, 0.0)
    out_BHTE: Tensor = weights_BHTT @ value_BHTE
    return out_BHTE


def probe_attention(device: str, *, thorough: bool, attention: Attention = fused_attention) -> Measurement:
    """The worst case's error as a part of what is allowed, the same for each format, and the kernels that ran.

    torch may choose among the kernels that it may choose from in training.
    """
    settle_cudnn_attention(choose_cudnn_attention(torch.device(device)))
    used: dict[Case, float] = {}
    with KernelNames() as kernels:
        for case in cases(thorough=thorough):
            used[case] = case_error(case, device, attention) / (MOST_TIMES_HEALTHY * HEALTHY_ERROR[case.dtype])
    worst = max(used, key=lambda case: used[case])
    facts = {
        f"{str(dtype).removeprefix('torch.')}_used": max(part for case, part in used.items() if case.dtype == dtype)
        for dtype in {case.dtype for case in used}
    }
    ran = ", ".join(sorted(kernels.names)) or "plain operations"
    return Measurement(used[worst] <= 1.0, used[worst], 1.0, f"worst at {worst}; kernels: {ran}", facts)


def case_error(case: Case, device: str, attention: Attention) -> float:
    """The largest relative Frobenius error of output and gradients over real tokens; 1e30 for what is not finite.

    Heads stand behind tokens, as the projections leave them, so that after the transposition nothing is contiguous.
    """
    rng = torch.Generator().manual_seed(0)
    leaves = [
        torch.randn(TEXTS, case.tokens, heads, case.width, generator=rng).to(case.dtype)
        for heads in (HEADS, KV_HEADS, KV_HEADS)
    ]
    real_BT, mask_BTT = masks(case)
    grad_BHTE = torch.randn(TEXTS, HEADS, case.tokens, case.width, generator=rng) * real_BT[:, None, :, None]
    found = _with_gradients(
        attention,
        [leaf.to(device) for leaf in leaves],
        None if case.mask == "causal" else mask_BTT.to(device),
        grad_BHTE.to(case.dtype).to(device),
    )
    expected = _with_gradients(exact_attention, [leaf.double() for leaf in leaves], mask_BTT, grad_BHTE)
    found[0], expected[0] = (out_BHTE * real_BT[:, None, :, None] for out_BHTE in (found[0], expected[0]))
    return max(float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True))


def _with_gradients(
    attention: Callable[..., Tensor], leaves: list[Tensor], mask_BTT: Tensor | None, grad_BHTE: Tensor
) -> list[Tensor]:
    """Output and the gradients of query, key and value, in float64 on the CPU, numbers that are not finite as 1e30."""
    for leaf in leaves:
        leaf.requires_grad_()
    out_BHTE = attention(*(leaf.transpose(1, 2) for leaf in leaves), mask_BTT)
    gradients = torch.autograd.grad(out_BHTE, leaves, grad_BHTE.to(out_BHTE.dtype))
    return [t.detach().cpu().double().nan_to_num(1e30, 1e30, -1e30) for t in (out_BHTE, *gradients)]


def masks(case: Case) -> tuple[Tensor, Tensor]:
    """Which tokens are real, (B, T), and where each query may look, (B, T, T); the second text is the shorter one."""
    places_T = torch.arange(case.tokens)
    short = case.tokens * 2 // 3
    padded = {"left": places_T >= case.tokens - short, "right": places_T < short}
    every_T = torch.ones(case.tokens, dtype=torch.bool)
    real_BT = torch.stack([every_T, padded.get(case.mask, every_T)])
    behind_TT = places_T[:, None] - places_T[None, :]
    look_TT = (behind_TT >= 0) & (behind_TT < (WINDOW if case.mask == "window" else case.tokens))
    return real_BT, look_TT & real_BT[:, None, :] & real_BT[:, :, None]


class KernelNames(TorchDispatchMode):
    """Collects the names of the fused attention kernels that run inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::_")
        if "attention" in name and "backward" not in name:
            self.names.add(name)
        return func(*args, **(kwargs or {}))
