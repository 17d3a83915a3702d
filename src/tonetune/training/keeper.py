"""Where the training loop stands, and the object it receives that keeps this and puts it back, bit for bit."""

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tonetune import __version__
from tonetune.interrupt import Stops
from tonetune.model.classifier import Classifier
from tonetune.training.checkpoints import (
    PREFIX,
    Checkpoint,
    checkpoints_in,
    remove_checkpoint,
    step_of,
    write_checkpoint,
)
from tonetune.training.order import Order

ON_HOST = "step"
"""The part of AdamW's state that lies on the host wherever its parameter lies."""


@dataclass
class Position:
    """Where the loop stands between two optimiser steps.

    `step` is the last one done, `skipped` how many up to it, in a row, changed nothing; `best` is the best score so
    far, and `stale` how many validations ago that was.
    `validation_due`: the model after this step is still to be scored.
    """

    budget_tokens: int
    step: int = 0
    best: float | None = None
    stale: int = 0
    skipped: int = 0
    validation_due: bool = False

    def judge(self, score: float) -> bool:
        """Count a validation; whether its score is the best so far."""
        improved = self.best is None or score > self.best
        self.best, self.stale = (score, 0) if improved else (self.best, self.stale + 1)
        self.validation_due = False
        return improved

    def ended(self, num_steps: int, patience: int | None) -> bool:
        """Whether training is over."""
        return not self.validation_due and (self.step == num_steps or (patience is not None and self.stale >= patience))


@dataclass(frozen=True)
class Held:
    """What the loop works with; training changes all of it."""

    classifier: Classifier
    optimizer: torch.optim.Optimizer
    order: Order
    at: Position


class Keeper:
    """Keeps nothing, and lets a request to stop come as it comes."""

    def begin(self, held: Held) -> None:
        """Called once, before the first step."""

    def heeding_stops(self) -> contextlib.AbstractContextManager[None]:
        """Surrounds long computations that change nothing that is held."""
        return contextlib.nullcontext()

    def boundary(self) -> None:
        """Called when a step, or a validation, is done: from here a later run could go on."""

    def rest(self, *, improved: bool, ended: bool) -> None:
        """Called when everybody has heard the events of a step: whether the model is the best so far, or the last."""


class Aside(Protocol):
    """What the caller of the loop keeps beside its state."""

    def kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """A document for JSON, and tensors by name."""

    def restore(self, document: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back what `kept` gave."""


@dataclass(frozen=True)
class Policy:
    """When checkpoints are written, beside those of better models and of the last step, and how many of them stay."""

    steps: int | None
    minutes: float | None
    keep: int


class CheckpointKeeper(Keeper):
    """Writes checkpoints below a directory as a policy says, and begins where `start` stood, if there is one.

    The newest ones stay, and that of the best validation. Raises DiskError where one cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        policy: Policy,
        aside: Aside,
        stops: Stops,
        *,
        identity: Mapping[str, object],
        start: Checkpoint | None = None,
    ) -> None:
        self._directory, self._policy, self._aside, self._stops = directory, policy, aside, stops
        self._identity, self._start = dict(identity), start
        self._saved_step = start.step if start else 0
        self._best_step = start.state["best_step"] if start else None
        self._saved_s = time.monotonic()
        self._planned_tokens = 0

    @property
    def at(self) -> Position:
        """Where the loop stands."""
        return self._held.at

    def begin(self, held: Held) -> None:
        self._held, self._planned_tokens = held, held.at.budget_tokens
        if self._start is not None:
            self._restore(self._start)
            self._start = None  # its tensors are copied
        self._random = _random_states(held.classifier.device)

    def heeding_stops(self) -> contextlib.AbstractContextManager[None]:
        return self._stops.heeded()

    def boundary(self) -> None:
        self._random = _random_states(self._held.classifier.device)

    def rest(self, *, improved: bool, ended: bool) -> None:
        step, policy = self._held.at.step, self._policy
        if improved:
            self._best_step = step
        by_steps = policy.steps is not None and step % policy.steps == 0
        by_time = policy.minutes is not None and time.monotonic() - self._saved_s >= 60 * policy.minutes
        if improved or ended or by_steps or by_time:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the last boundary, unless there is one or nothing was done; remove old ones."""
        held, at = self._held, self._held.at
        if at.step == self._saved_step:
            return
        document, best = self._aside.kept()
        names: dict[Tensor, str] = {parameter: name for name, parameter in held.classifier.trainable().items()}
        optimizer = {
            f"{names[parameter]}:{key}": value.detach().to("cpu")
            for parameter, state in held.optimizer.state.items()
            for key, value in state.items()
        }
        numbers, random_tensors = self._random
        state = {
            "tonetune": __version__,
            "step": at.step,
            "best_step": self._best_step,
            "identity": self._identity,
            "position": asdict(at),
            "planned_tokens": self._planned_tokens,
            "order": held.order.state(),
            "random": numbers,
            "optimizer": type(held.optimizer).__name__,
            "aside": document,
        }
        tensors = {"adapter": held.classifier.snapshot(), "optimizer": optimizer, "random": random_tensors}
        write_checkpoint(self._directory / f"{PREFIX}{at.step}", state, tensors | ({"best": best} if best else {}))
        self._saved_step, self._saved_s = at.step, time.monotonic()
        for path in checkpoints_in(self._directory)[: -self._policy.keep]:
            if step_of(path) != self._best_step:
                remove_checkpoint(path)

    def _restore(self, start: Checkpoint) -> None:
        """Put a checkpoint in the place of what the loop begins with."""
        held, state = self._held, start.state
        held.classifier.restore(start.tensors["adapter"])
        parameters = held.classifier.trainable()
        held.optimizer.state.clear()
        for place, value in start.tensors["optimizer"].items():
            name, _, key = place.rpartition(":")
            device = "cpu" if key == ON_HOST else parameters[name].device
            held.optimizer.state[parameters[name]][key] = value.to(device)
        held.order.restore(state["order"])
        position = dict(state["position"])
        if state["planned_tokens"] != self._planned_tokens:  # another number was asked for
            position["budget_tokens"] = self._planned_tokens
        vars(held.at).update(position)
        _set_random_states(state["random"], start.tensors["random"], held.classifier.device)
        self._aside.restore(state["aside"], start.tensors.get("best", {}))


RandomStates = tuple[dict[str, Any], dict[str, Tensor]]


def _random_states(device: torch.device) -> RandomStates:
    """The states of all generators that code can draw from unasked, as numbers and tensors."""
    version, words, gauss = random.getstate()
    legacy: dict[str, Any] = dict(np.random.get_state(legacy=False))
    numpy_words, position = legacy["state"]["key"], legacy["state"]["pos"]
    numbers = {
        "python": {"version": version, "gauss": gauss},
        "numpy": {"position": int(position), "has_gauss": int(legacy["has_gauss"]), "gauss": float(legacy["gauss"])},
    }
    tensors = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(words, dtype=torch.int64),
        "numpy": torch.from_numpy(numpy_words.astype(np.int64)),
    }
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return numbers, tensors


def _set_random_states(numbers: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(tensors["torch"])
    python, legacy = numbers["python"], numbers["numpy"]
    random.setstate((python["version"], tuple(tensors["python"].tolist()), python["gauss"]))
    words = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", words, legacy["position"], legacy["has_gauss"], legacy["gauss"]))
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"], device)
