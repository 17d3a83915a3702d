"""What a training step will hold in memory and how much it computes, from running it on tensors without data."""

import textwrap
from dataclasses import dataclass

import torch

from tonetune.data.batches import Batch
from tonetune.device.kept import keep, read_kept
from tonetune.device.memory import heap_bytes, library_bytes
from tonetune.device.probes.record import describe_machine
from tonetune.device.source import source_hash
from tonetune.device.trace import Trace, without_data
from tonetune.errors import ModelError
from tonetune.model.blueprint import Blueprint
from tonetune.model.classifier import Classifier
from tonetune.training.gradient import summed_loss

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Footprint:
    """Bytes at the peak of a training step.

    `weights` are the frozen ones, `adapter` the trainable ones, the head too, and their gradients, `optimizer` AdamW's
    two moments, `activations` all that forward and backward pass hold beside them, `other` what is no tensor.
    """

    weights: int
    adapter: int
    optimizer: int
    activations: int
    other: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Pass:
    """Forward and backward pass of one micro-batch of `tokens` tokens: the most bytes at once, and the operations."""

    tokens: int
    activations: int
    flops: int


class DryRun:
    """What steps take whose longest texts have `longest` tokens; each way of training is run once, without data.

    `total` counts the parameters of the text body with its embeddings, `trainable` those of adapter and head, `head`
    those of the head.
    """

    def __init__(self, blueprint: Blueprint, device: torch.device, *, longest: int) -> None:
        self.blueprint = blueprint
        self._device, self._longest = device, longest
        self._passes: dict[bool, Pass] = {}
        classifier = blueprint.build("meta")
        self.total = sum(p.numel() for p in classifier.parameters() if not p.requires_grad)
        self.trainable = sum(p.numel() for p in classifier.trainable().values())
        self.head = classifier.score.weight.numel()
        self._weights, self._unpacked = blueprint.stored_bytes(classifier)

    def footprint(self, tokens: int, *, checkpointing: bool) -> Footprint:
        """Bytes of a step whose largest micro-batch has that many tokens, pads included.

        Trainable parameters are float32: 16 bytes each with gradient and moments. Activations grow as the tokens do.
        """
        done = self._pass(tokens, checkpointing)
        activations = done.activations * tokens // done.tokens
        return Footprint(
            weights=self._weights,
            adapter=2 * FLOAT32_BYTES * self.trainable,
            optimizer=2 * FLOAT32_BYTES * self.trainable,
            activations=activations + self._unpacked,
            other=library_bytes(self._device) + heap_bytes(activations, self._device),
        )

    def flops(self, tokens: int, *, checkpointing: bool) -> float:
        """Floating-point operations of forward and backward pass over that many tokens, pads included."""
        done = self._pass(tokens, checkpointing)
        return done.flops * tokens / done.tokens

    def _pass(self, tokens: int, checkpointing: bool) -> Pass:
        if checkpointing not in self._passes:
            self._passes[checkpointing] = self._kept_pass(max(1, tokens // self._longest), checkpointing)
        return self._passes[checkpointing]

    def _kept_pass(self, texts: int, checkpointing: bool) -> Pass:
        """Run it, unless the same was run on this machine before."""
        config = self.blueprint.config.to_dict()
        way = [texts, self._longest, checkpointing, str(self._device), source_hash(__name__)]
        key = [
            describe_machine(),
            {**vars(self.blueprint), "config": config, "family": self.blueprint.family.name},
            way,
        ]
        if kept := read_kept("passes", key):
            return Pass(**kept)
        classifier = self.blueprint.build("meta")
        if checkpointing:
            classifier.recompute_activations()
        done = run_without_data(classifier, self._device, texts, self._longest)
        keep("passes", key, vars(done))
        return done


def run_without_data(classifier: Classifier, device: torch.device, texts: int, tokens: int) -> Pass:
    """The pass of a micro-batch of training on `device`; `classifier` is on "meta". About a second on a CPU core.

    Raises ModelError for a model whose work depends on its data, or that torch cannot follow.
    """
    try:
        return _follow(classifier, device, texts, tokens)
    except (RuntimeError, AttributeError) as error:  # what torch has no rule for; names that transformers gave up
        raise ModelError(
            f"a step cannot be followed without data: {textwrap.shorten(str(error), 160)}",
            hint="set train.micro_batch_tokens and train.checkpointing",
        ) from error


def _follow(classifier: Classifier, device: torch.device, texts: int, tokens: int) -> Pass:
    with without_data():
        classifier.to_empty(device=device)
        trainable = classifier.trainable().values()
        for parameter in trainable:
            parameter.grad = torch.zeros_like(parameter)  # as the micro-batches before leave it
        existing = [*classifier.parameters(), *classifier.buffers(), *(p.grad for p in trainable if p.grad is not None)]
        rows_B = torch.arange(texts, device=device)
        ids_BT = torch.zeros(texts, tokens, dtype=torch.long, device=device)
        batch = Batch(ids_BT, torch.ones_like(ids_BT, dtype=torch.bool), rows_B)
        with Trace(existing) as trace:
            summed_loss(classifier, batch, torch.zeros_like(rows_B)).backward()
    return Pass(texts * tokens, trace.peak_bytes, trace.flops)
