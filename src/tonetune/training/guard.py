"""The first-steps guard: after two optimiser steps the adapter and the head have moved, and the base has not."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from tonetune.errors import TrainingError, listed
from tonetune.model.classifier import HEAD, Classifier

# N = bytes of a tensor, R = rows and W = columns of its words of 8 bytes

STEPS = 2
ROW_WORDS = 1024
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio, as a signed number: its multiples are spread evenly over all 64-bit numbers."""


class FirstSteps:
    """Watches the first optimiser steps of a run, fewer than two where the run has fewer.

    Every matrix B and the head must get a gradient and move; a DoRA magnitude must get a gradient, because the first
    steps of a warm-up can be too small to change it in float32. A's gradient is zero while B is, so A is not watched.
    Weight decay moves the head too, and is not mistaken for learning, as it leaves the gradient alone. Frozen
    parameters must keep every bit.
    """

    def __init__(self, classifier: Classifier, *, num_steps: int, done: int = 0) -> None:
        """Look at the parameters as they are, `done` steps into the run; its last ones may be too small for float32.

        Raises TrainingError for reentrant checkpointing.
        """
        _refuse_reentrant_checkpointing(classifier)
        self._left = max(0, min(STEPS, num_steps) - done)
        self._frozen = {name: p for name, p in classifier.named_parameters() if not p.requires_grad}
        self._checksums = checksums(self._frozen)
        self._learning = {name: p for name, p in classifier.trainable().items() if ".lora_A." not in name}
        self._before = {name: p.detach().clone() for name, p in self._learning.items() if _moves_at_once(name)}
        self._reached: set[str] = set()

    def step(self, step: int) -> None:
        """Look again, after the optimiser's step number `step` and before its gradients are cleared.

        Raises TrainingError at the last step that is watched, naming the parameters that are not as they should be.
        """
        if self._left == 0:
            return
        self._left -= 1
        gradients = {name: p.grad for name, p in self._learning.items() if p.grad is not None}
        self._reached |= set(_those(gradients.items()))
        if self._left:
            return
        unreached = [name for name in self._learning if name not in self._reached]
        moved = set(_those((name, self._learning[name].detach() != start) for name, start in self._before.items()))
        still = [name for name in self._before if name not in moved and name in self._reached]
        changed = [name for name, sum_ in checksums(self._frozen).items() if sum_ != self._checksums[name]]
        self._before.clear()
        for names, what, hint in (
            (unreached, "no gradient has reached", "float16 loses small gradients: set model.dtype: float32"),
            (still, "no step has moved", "train.learning_rate may be too small for float32"),
            (changed, "frozen, but changed, are", "look for code beside tonetune that writes to the base"),
        ):
            if names:
                raise TrainingError(
                    f"{what} {len(names)} parameters: {listed(names, 3)}", where=f"step {step}", hint=hint
                )


def _moves_at_once(name: str) -> bool:
    return ".lora_B." in name or name == HEAD


def _those(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Names of the tensors that are not zero everywhere; the device is waited for once."""
    names, found = [], []
    for name, tensor in tensors:
        names.append(name)
        found.append(tensor.any())
    return [name for name, any_ in zip(names, torch.stack(found).tolist() if found else [], strict=True) if any_]


def _refuse_reentrant_checkpointing(classifier: Classifier) -> None:
    """With keys and values that layers share, it computes wrong gradients, and the loss looks as always."""
    for module in classifier.modules():
        settings = getattr(getattr(module, "_gradient_checkpointing_func", None), "keywords", {})
        if getattr(module, "gradient_checkpointing", False) and settings.get("use_reentrant", True):
            raise TrainingError(
                "reentrant checkpointing computes wrong gradients where layers share keys and values",
                where="train.checkpointing",
                hint="let tonetune enable it: Classifier.recompute_activations",
            )


def checksums(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """A 64-bit number over the bits of each tensor, whatever its type; another one if a single word of it changes.

    Words are laid out in rows. Each is multiplied with an odd number that depends on its row and its column, and all
    are added up modulo 2^64, where the tensor is and without a copy of it.
    """
    return {name: int(_checksum(tensor)) for name, tensor in tensors.items()}


def _checksum(tensor: Tensor) -> Tensor:
    bytes_N = tensor.detach().contiguous().flatten().view(torch.uint8)
    if bytes_N.storage_offset() % 8:  # words begin at multiples of 8 bytes
        bytes_N = bytes_N.clone()
    whole = len(bytes_N) - len(bytes_N) % (8 * ROW_WORDS)
    words_RW = bytes_N[:whole].view(torch.int64).view(-1, ROW_WORDS)
    columns, rows, rest = words_RW.sum(0), words_RW.sum(1), bytes_N[whole:].to(torch.int64)
    return (columns * _odd(columns)).sum() + 2 * (rows * _odd(rows)).sum() + (rest * _odd(rest)).sum()


def _odd(words: Tensor) -> Tensor:
    """An odd number for each place of a vector."""
    return torch.arange(len(words), device=words.device) * GOLDEN | 1
