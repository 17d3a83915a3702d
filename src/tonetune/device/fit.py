"""How much one forward and backward pass computes at once, so that a step fits the memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tonetune.device.choose import Choice

USUAL_TOKENS = {
    "cpu": Choice(1024, "more tokens at once are not faster on a CPU and take more memory"),
    "cuda": Choice(8192, "a batch of short texts in one pass; larger passes gain little on a GPU"),
}
LEAST_PART = 4
"""A pass of this part of the usual size costs less time than computing activations again."""
GIB = 2.0**30


@dataclass(frozen=True)
class Fit:
    """How a step is cut: padded tokens that one pass may hold, and whether activations are computed again."""

    micro_batch_tokens: Choice[int]
    checkpointing: Choice[bool]


def texts_at_once(tokens: int, *, longest: int, batch: int) -> int:
    """Texts of `longest` tokens in a micro-batch that may hold `tokens`: at least one, at most a whole batch."""
    return min(batch, max(1, tokens // longest))


def choose_fit(
    requested_tokens: str | int,
    requested_checkpointing: str | bool,
    device: torch.device,
    *,
    longest: int,
    batch: int,
    available: int,
    need: Callable[[int, bool], int],
) -> Fit:
    """What the user sets, and of the rest the first that fits: the usual size, smaller passes, checkpointing.

    `need` says how many bytes a step takes, given the most tokens of a pass and whether activations are computed again;
    it is not asked where the user sets both. A pass is of texts of `longest` tokens, at most a whole `batch`. Where
    nothing fits the least is taken.
    """
    usual = USUAL_TOKENS[device.type]
    set_tokens = None if isinstance(requested_tokens, str) else requested_tokens
    set_way = None if isinstance(requested_checkpointing, str) else requested_checkpointing
    sizes = _halved(usual.value, longest) if set_tokens is None else [set_tokens]
    if set_way is not None:
        candidates = [(size, set_way) for size in sizes]
    else:
        candidates = [(s, False) for s in sizes if s * LEAST_PART >= sizes[0]] + [(s, True) for s in sizes]
    size, way = candidates[0]
    said = ""
    if set_tokens is None or set_way is None:
        for size, way in candidates:
            texts = texts_at_once(size, longest=longest, batch=batch)
            needed = need(texts * longest, way)
            said = f"{texts} texts of {longest} tokens take {needed / GIB:.1f} of {available / GIB:.1f} GiB"
            if needed <= available:
                break
    tokens = usual if size == usual.value else Choice(size, f"the usual {usual.value:,} do not fit: {said}")
    checkpointing = Choice(way, f"activations are computed again to fit: {said}" if way else said)
    return Fit(
        tokens if set_tokens is None else Choice(size, "set by train.micro_batch_tokens"),
        checkpointing if set_way is None else Choice(way, "set by train.checkpointing"),
    )


def usual_fit(requested_tokens: str | int, requested_checkpointing: str | bool, device: torch.device, why: str) -> Fit:
    """What the user sets, and for the rest the usual size without checkpointing; `why` nothing better is known."""
    tokens = Choice(requested_tokens, "set by train.micro_batch_tokens") if isinstance(requested_tokens, int) else None
    return Fit(tokens or USUAL_TOKENS[device.type], Choice(requested_checkpointing is True, why))


def _halved(tokens: int, least: int) -> list[int]:
    """`tokens`, its half, and so on down to one text of `least` tokens."""
    sizes = [tokens]
    while sizes[-1] > least:
        sizes.append(sizes[-1] // 2)
    return sizes
