"""A trial trains: its time and peak are those of real steps; running out of memory is an error with a way out."""

import numpy as np
import pytest
import torch

from tonetune.errors import TrainingError
from tonetune.model.blueprint import Blueprint
from tonetune.model.families import family_of
from tonetune.model.loading import read_text_config
from tonetune.model.source import find_base
from tonetune.training import trial
from tonetune.training.trial import try_step

CPU = torch.device("cpu")


def attempt(directory, **changes):
    source = find_base(str(directory), whole=False)
    family = family_of(source.config, where=str(directory))
    blueprint = Blueprint(
        read_text_config(source),
        family,
        torch.float32,
        "sdpa",
        num_labels=3,
        targets="attention",
        rank=4,
        alpha=8.0,
        dropout=0.0,
        variant="lora",
    )
    how = {"budget_tokens": 64, "call_tokens": 8, "checkpointing": False, "rng": np.random.default_rng(0)}
    return try_step(blueprint, np.array([5, 30, 12]), CPU, **{**how, **changes})


@pytest.mark.parametrize("checkpointing", [False, True])
def test_it_takes_time_and_memory(tiny_gemma, checkpointing):
    found = attempt(tiny_gemma, checkpointing=checkpointing)
    assert 0 < found.step_s < 30
    assert 0 <= found.peak_memory_mib < 10_000


def test_it_takes_two_steps_on_the_batch_as_training_cuts_it(tiny_gemma, monkeypatch):
    calls = []

    def accumulate(classifier, store, gold, rows, *, budget_tokens, call_tokens):
        calls.append((store.lengths[rows].tolist(), budget_tokens, call_tokens))
        return torch.zeros(())

    monkeypatch.setattr(trial, "accumulate", accumulate)
    attempt(tiny_gemma)
    assert calls == [([5, 30, 12], 64, 8)] * 2


def test_running_out_is_an_error_that_says_what_to_lower(tiny_gemma, monkeypatch):
    def accumulate(*args, **kwargs):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate")

    monkeypatch.setattr(trial, "accumulate", accumulate)
    with pytest.raises(TrainingError, match="measuring one step: the GPU is out of memory") as caught:
        attempt(tiny_gemma)
    assert "micro_batch_tokens" in str(caught.value.hint)
