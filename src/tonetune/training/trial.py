"""One real step on random weights and random tokens: what it takes in memory and time."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune.data.batches import TokenStore
from tonetune.device.choose import peak_memory_mib, reset_peak_memory
from tonetune.device.memory import memory_errors
from tonetune.model.blueprint import Blueprint
from tonetune.training.gradient import accumulate


@dataclass(frozen=True)
class Trial:
    """Peak memory from before the model was made, and seconds of the second of two equal steps."""

    peak_memory_mib: float
    step_s: float


def try_step(
    blueprint: Blueprint,
    lengths: NDArray[np.int64],
    device: torch.device,
    *,
    budget_tokens: int,
    call_tokens: int,
    checkpointing: bool,
    rng: np.random.Generator,
) -> Trial:
    """Train on one batch of texts of these lengths, twice: the first step makes the optimiser's moments.

    The numbers do not matter to what a step takes, so no checkpoint is needed. Raises TrainingError where memory runs
    out.
    """
    before_mib = reset_peak_memory(device)
    with memory_errors("measuring one step"):
        classifier = blueprint.build(device)
        if checkpointing:
            classifier.recompute_activations()
        optimizer = torch.optim.AdamW(list(classifier.trainable().values()), lr=1e-4)
        ids = [rng.integers(blueprint.config.vocab_size, size=n).astype(np.int32) for n in lengths]
        store = TokenStore(ids, pad_id=0, device=device)
        gold_N = torch.zeros(len(lengths), dtype=torch.long, device=device)
        step_s = 0.0
        for _ in range(2):
            began_s = time.perf_counter()
            rows = np.arange(len(lengths))
            loss = accumulate(classifier, store, gold_N, rows, budget_tokens=budget_tokens, call_tokens=call_tokens)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            float(loss)  # waits for the device
            step_s = time.perf_counter() - began_s
    return Trial(max(0.0, peak_memory_mib(device) - before_mib), step_s)  # of a resident process, pages can go
