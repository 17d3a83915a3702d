"""The training loop: a generator of events. It computes; the caller prints, saves and stops."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tonetune.data.batches import TokenStore
from tonetune.errors import TrainingError
from tonetune.model.classifier import Classifier
from tonetune.training.gradient import accumulate_if_it_fits, first_not_finite
from tonetune.training.guard import FirstSteps
from tonetune.training.keeper import Held, Keeper, Position
from tonetune.training.order import Order
from tonetune.training.schedule import learning_rate_factor

# B = texts in a micro-batch, C = labels

MOST_SKIPPED = 5
"""Steps in a row whose gradient is not finite: one text can overflow, so many are the model or the machine."""


@dataclass(frozen=True)
class StepEvent:
    """One optimiser step. `loss` is the mean over its texts, `grad_norm` is before clipping, `epoch` is done so far."""

    step: int
    epoch: float
    loss: float
    learning_rate: float
    grad_norm: float
    num_texts: int
    num_tokens: int


@dataclass(frozen=True)
class ValidationEvent:
    """Scores of the model as it is after `step`; `improved` says that they are the best so far."""

    step: int
    scores: dict[str, float]
    improved: bool


@dataclass(frozen=True)
class SkippedEvent:
    """A step that changed nothing: its loss was finite, its gradient not; `culprit` is the first that was not."""

    step: int
    loss: float
    culprit: str


@dataclass(frozen=True)
class MemoryEvent:
    """Memory ran out in `step`, which is done again: from now on a micro-batch holds at most `budget_tokens`."""

    step: int
    budget_tokens: int


@dataclass(frozen=True)
class Plan:
    """How to train; see the config section `train` for each knob. `num_steps` are optimiser steps of `batch` texts.

    `learning_rate` is the peak; the adapter's matrices A learn at it over `rate_ratio`. `class_weights` multiply the
    loss of the texts of each class, in the order of the labels; None weighs all alike.
    """

    num_steps: int
    batch: int
    learning_rate: float
    rate_ratio: float
    schedule: str
    warmup_steps: int
    weight_decay: float
    clip: float
    evaluate_every: int
    patience: int | None
    select_by: str
    budget_tokens: int
    call_tokens: int
    class_weights: tuple[float, ...] | None = None


def steps_for(num_texts: int, *, epochs: float, batch: int) -> int:
    """Optimiser steps in `epochs` passes over `num_texts`; an unfinished batch at the end of a pass is a step.

    `epochs` counts as the decimal it is written as: in binary 10 · 1.1 is more than 11, and would be 12 steps.
    """
    return max(1, math.ceil(math.ceil(num_texts / batch) * Fraction(str(epochs))))


def train(
    classifier: Classifier,
    store: TokenStore,
    gold: NDArray[Any],
    plan: Plan,
    *,
    evaluate: Callable[[], dict[str, float]],
    rng: np.random.Generator,
    keeper: Keeper | None = None,
) -> Iterator[StepEvent | SkippedEvent | ValidationEvent | MemoryEvent]:
    """Train adapter and head in place, yielding each step and each validation.

    The loss of a step is that of `gradient.summed_loss` averaged over its texts, however they are cut into
    micro-batches, so the gradient does not depend on memory: where that runs out the step is done again with half as
    much at once.
    `evaluate` scores the classifier as it is. Ends early after `patience` validations without a better `select_by`.
    `keeper` may put the loop where an earlier one stood, and keeps where it stands once the events of a step are heard.
    A step whose gradient is not finite is skipped. Raises TrainingError where a loss is not finite, or the gradients of
    MOST_SKIPPED steps in a row (of all, where there are fewer), naming the first module that is not, and where the
    first steps leave a part of the adapter as it was or change the base.
    """
    gold_N = torch.from_numpy(gold).to(classifier.device)
    parameters = list(classifier.trainable().values())
    groups = parameter_groups(classifier, plan.rate_ratio)
    optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, weight_decay=plan.weight_decay)
    how: dict[str, Any] = {"budget_tokens": plan.budget_tokens, "call_tokens": plan.call_tokens}
    if plan.class_weights is not None:
        how["weights_C"] = torch.tensor(plan.class_weights, dtype=torch.float32, device=classifier.device)
    order = Order(len(store), plan.batch, rng)
    at = Position(plan.budget_tokens)
    keeper = keeper or Keeper()
    keeper.begin(Held(classifier, optimizer, order, at))
    guard = FirstSteps(classifier, num_steps=plan.num_steps, done=at.step)
    classifier.train()
    while not at.ended(plan.num_steps, plan.patience):
        if not at.validation_due:
            step = at.step + 1
            rows = order.rows(step)
            factor = learning_rate_factor(
                step, total_steps=plan.num_steps, warmup_steps=plan.warmup_steps, schedule=plan.schedule
            )
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate * factor * group["share"]
            while True:
                how["budget_tokens"] = at.budget_tokens
                with keeper.heeding_stops():
                    loss = accumulate_if_it_fits(classifier, store, gold_N, rows, **how)
                if loss is not None:
                    break
                at.budget_tokens //= 2
                yield MemoryEvent(step, at.budget_tokens)
            norm = nn.utils.clip_grad_norm_(parameters, plan.clip)
            loss_value, norm_value = torch.stack([loss, norm]).tolist()
            at.skipped = 0 if math.isfinite(loss_value) and math.isfinite(norm_value) else at.skipped + 1
            event: StepEvent | SkippedEvent
            if at.skipped:
                culprit = first_not_finite(classifier, store, gold_N, rows, **how)
                if not math.isfinite(loss_value) or at.skipped == min(MOST_SKIPPED, plan.num_steps):
                    raise _stopped(loss_value, norm_value, culprit, step)
                event = SkippedEvent(step, loss_value, culprit)
            else:
                optimizer.step()
                guard.step(step)
                event = StepEvent(
                    step=step,
                    epoch=step / math.ceil(len(store) / plan.batch),
                    loss=loss_value,
                    learning_rate=plan.learning_rate * factor,
                    grad_norm=norm_value,
                    num_texts=len(rows),
                    num_tokens=int(store.lengths[rows].sum()),
                )
            optimizer.zero_grad(set_to_none=True)
            at.step, at.validation_due = step, step % plan.evaluate_every == 0 or step == plan.num_steps
            keeper.boundary()
            yield event
        improved = False
        if at.validation_due:
            with keeper.heeding_stops():
                scores = evaluate()
            improved = at.judge(scores[plan.select_by])
            keeper.boundary()
            yield ValidationEvent(at.step, scores, improved)
        keeper.rest(improved=improved, ended=at.ended(plan.num_steps, plan.patience))


def parameter_groups(classifier: Classifier, rate_ratio: float) -> list[dict[str, Any]]:
    """The matrices A, then all else that is trained, each group with the `share` of the learning rate that it gets."""
    slow = {name: p for name, p in classifier.trainable().items() if ".lora_A." in name}
    rest = [p for name, p in classifier.trainable().items() if name not in slow]
    return [{"params": [*slow.values()], "share": 1.0 / rate_ratio}, {"params": rest, "share": 1.0}]


def _stopped(loss: float, norm: float, culprit: str, step: int) -> TrainingError:
    what = f"the loss is {loss}" if not math.isfinite(loss) else f"the loss is finite but the gradient's norm is {norm}"
    hint = "set model.dtype: float32, or halve train.learning_rate"
    return TrainingError(f"{what}; the first that is not finite is {culprit}", where=f"step {step}", hint=hint)


class Stopwatch:
    """Texts and tokens per second over training steps alone, without validation."""

    def __init__(self, train_s: float = 0.0, num_texts: int = 0, num_tokens: int = 0) -> None:
        """Go on from counts of an earlier one."""
        self.train_s = train_s
        self.num_texts = num_texts
        self.num_tokens = num_tokens
        self._since = time.perf_counter()

    def step(self, event: StepEvent) -> None:
        """Count a step that began at the last call."""
        self.train_s += self._lap()
        self.num_texts += event.num_texts
        self.num_tokens += event.num_tokens

    def skip(self) -> None:
        """Leave out the time since the last call."""
        self._lap()

    def _lap(self) -> float:
        now = time.perf_counter()
        lap, self._since = now - self._since, now
        return lap

    @property
    def texts_per_s(self) -> float:
        return self.num_texts / self.train_s if self.train_s else 0.0

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.train_s if self.train_s else 0.0
