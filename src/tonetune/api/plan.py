"""The plan of a run: memory, time and cost from its config and shapes, before anything is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.api.rows import prepare_rows, refuse_unsupported
from tonetune.api.setup import Placement, choose_prompt
from tonetune.config import RunConfig, load_config
from tonetune.data.cut import cut
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.data.splits import TRAIN
from tonetune.device.choose import dtype_name, settle_cudnn_attention
from tonetune.device.speed import product_flops_per_s
from tonetune.errors import ConfigError
from tonetune.model.loading import read_text_config, read_vocabulary
from tonetune.model.quantization import NONE
from tonetune.model.source import Source, find_base
from tonetune.training.loop import steps_for
from tonetune.training.order import batches
from tonetune.training.trial import Trial, try_step

MIB = 2.0**20
ASSUMED_LABELS = 2


@dataclass(frozen=True)
class Rows:
    """Tokens of each training text, or of one batch of the longest; `known` says which, `notes` what is not known."""

    lengths: NDArray[np.int64]
    num_labels: int
    known: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """An optimiser step: the tokens of its texts, and those of each of its micro-batches, pads included."""

    lengths: NDArray[np.int64]
    passes: list[int]


def plan(
    config: str | Path | Mapping[str, Any] | RunConfig | None = None,
    *,
    overrides: Sequence[str] = (),
    measure: bool = False,
    options: ReadOptions = AS_FOUND,
) -> dict[str, Any]:
    """What a run would take: the document that `tonetune plan --json` prints.

    Of the model only config.json is needed. Where `data.train` is named, its texts are counted in tokens; `options`
    override what is found in its files. With `measure` one real step on random weights is made too. Raises ConfigError,
    DataError, ModelError, DeviceError, and TrainingError where that step does not fit.
    """
    settings = load_config(config.model_dump() if isinstance(config, RunConfig) else config, overrides=overrides)
    refuse_unsupported(settings)
    source = find_base(settings.model.base, revision=settings.model.revision, whole=False)
    rows = _rows(settings, source, options)
    placement = Placement.choose(settings, source, num_labels=rows.num_labels)
    if measure and placement.dry_run.blueprint.quantization != NONE:
        raise ConfigError(
            ["a step is measured on random weights, and those are not packed"],
            where="model.quantization",
            hint="plan without --measure",
        )
    steps = _steps(settings, rows, placement)
    fullest = max(steps, key=lambda step: max(step.passes))
    dry_run, checkpointing = placement.dry_run, placement.checkpointing.value
    footprint = dry_run.footprint(max(fullest.passes), checkpointing=checkpointing)
    trial = _trial(settings, placement, fullest) if measure else None
    return {
        "base": settings.model.base,
        "device": str(placement.device.value),
        "dtype": dtype_name(placement.dtype.value),
        "attention": placement.attention.value,
        "parameters": {"total": dry_run.total, "trainable": dry_run.trainable, "head": dry_run.head},
        "memory_mib": {name: round(b / MIB, 1) for name, b in [*vars(footprint).items(), ("total", footprint.total)]},
        "available_mib": round(placement.available_bytes / MIB),
        "micro_batch_tokens": placement.micro_batch_tokens.value,
        "largest_batch_texts": _largest_batch(placement, settings.data.max_length),
        "micro_batches_per_step": {
            "mean": fmean(len(step.passes) for step in steps),
            "max": max(len(step.passes) for step in steps),
        },
        "checkpointing": checkpointing,
        "estimate": _estimate(settings, rows, placement, steps, trial.step_s / sum(fullest.passes) if trial else None),
        "measured": vars(trial) if trial else None,
        "reasons": [*(f"{name}: {choice.reason}" for name, choice in placement.choices().items()), *rows.notes],
    }


def _rows(settings: RunConfig, source: Source, options: ReadOptions) -> Rows:
    """The training rows as `train` would read and tokenise them, as far as there are files to do so."""
    longest, batch = settings.data.max_length, settings.train.batch
    if settings.data.train is None:
        notes = [f"data.train names no rows: every text is counted as {longest} tokens"]
        if settings.data.labels is None:
            notes.append(f"data.labels is not set: {ASSUMED_LABELS} labels are assumed")
        num_labels = len(settings.data.labels or "") or ASSUMED_LABELS
        return Rows(np.full(batch, longest, dtype=np.int64), num_labels, known=False, notes=tuple(notes))
    prepared = prepare_rows(settings, options=options)
    texts, labels = [example.text for example in prepared.splits[TRAIN]], prepared.label_set
    if not (source.directory / "tokenizer.json").is_file():
        note = f"the model directory has no tokenizer.json: every text is counted as {longest} tokens"
        return Rows(np.full(len(texts), longest, dtype=np.int64), len(labels), known=True, notes=(note,))
    vocabulary = read_vocabulary(source, read_text_config(source), fluent=settings.model.load_gate == "strict")
    prompt = choose_prompt(settings, vocabulary, labels, texts, num_turns=prepared.num_turns)
    return Rows(prompt.tokenizer.encode(texts).lengths, len(labels), known=True)


def _steps(settings: RunConfig, rows: Rows, placement: Placement) -> list[Step]:
    """One pass over the rows, cut as training cuts it."""
    num_steps = steps_for(len(rows.lengths), epochs=1, batch=settings.train.batch)
    rng = np.random.default_rng(settings.train.seed)
    steps = []
    for chosen in batches(len(rows.lengths), settings.train.batch, num_steps, rng):
        lengths = rows.lengths[chosen]
        parts = cut(lengths, budget_tokens=placement.micro_batch_tokens.value, call_tokens=placement.call_tokens)
        steps.append(Step(lengths, [len(part) * int(lengths[part].max()) for part in parts]))
    return steps


def _largest_batch(placement: Placement, longest: int) -> int:
    """Texts of the greatest length that fit into one micro-batch."""

    def total(texts: int) -> int:
        return placement.dry_run.footprint(texts * longest, checkpointing=placement.checkpointing.value).total

    return max(0, (placement.available_bytes - total(0)) // (total(1) - total(0)))


def _trial(settings: RunConfig, placement: Placement, step: Step) -> Trial:
    settle_cudnn_attention(placement.cudnn_attention)
    return try_step(
        placement.dry_run.blueprint,
        step.lengths,
        placement.device.value,
        budget_tokens=placement.micro_batch_tokens.value,
        call_tokens=placement.call_tokens,
        checkpointing=placement.checkpointing.value,
        rng=np.random.default_rng(settings.train.seed),
    )


def _estimate(
    settings: RunConfig, rows: Rows, placement: Placement, steps: Sequence[Step], token_s: float | None
) -> dict[str, Any]:
    """Seconds of a mean step and of all of them, and what they cost at run.price_per_hour.

    `token_s` are measured seconds for each token, pads included. What rests on unknown rows is None.
    """
    mean_tokens = fmean(sum(step.passes) for step in steps)
    if token_s is None:
        flops = placement.dry_run.flops(round(mean_tokens), checkpointing=placement.checkpointing.value)
        step_s = flops / product_flops_per_s(placement.dtype.value, placement.device.value.type)
        basis = "a lower bound: the step's matrix products at the speed of one large product on this device"
    else:
        step_s, basis = token_s * mean_tokens, "one measured step"
    num_steps = steps_for(len(rows.lengths), epochs=settings.train.epochs, batch=settings.train.batch)
    train_s = step_s * num_steps if rows.known else None
    price = settings.run.price_per_hour
    return {
        "step_s": step_s,
        "steps": num_steps if rows.known else None,
        "train_s": train_s,
        "cost": train_s / 3600 * price if train_s is not None and price is not None else None,
        "basis": basis,
    }
