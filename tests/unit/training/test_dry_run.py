"""A dry run says what the real step holds and computes, with and without checkpointing."""

import pytest
import torch

from tonetune.data.batches import Batch
from tonetune.device.trace import Trace
from tonetune.errors import ModelError
from tonetune.model.blueprint import Blueprint
from tonetune.model.families import family_of
from tonetune.model.loading import read_text_config
from tonetune.model.source import find_base
from tonetune.training import dry_run
from tonetune.training.dry_run import DryRun, run_without_data
from tonetune.training.gradient import summed_loss

CPU = torch.device("cpu")
TEXTS, TOKENS = 4, 32
FAMILIES = ("gemma2", "gemma3_text", "gemma3n_text", "gemma4", "gemma4_moe", "qwen3")
"""Those that differ in what they hold: attention of plain operations, windows, shared keys, embeddings, experts."""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path))


def blueprint_of(directory, **changes):
    source = find_base(str(directory), whole=False)
    family = family_of(source.config, where=str(directory))
    values = {"targets": "attention", "rank": 4, "alpha": 8.0, "dropout": 0.0, "variant": "lora", "num_labels": 3}
    dtype = changes.pop("dtype", torch.float32)
    return Blueprint(read_text_config(source), family, dtype, family.kernel, **{**values, **changes})


def real_pass(blueprint, *, checkpointing):
    """The same pass with data, followed by the same trace."""
    classifier = blueprint.build(CPU)
    if checkpointing:
        classifier.recompute_activations()
    for parameter in classifier.trainable().values():
        parameter.grad = torch.zeros_like(parameter)
    gradients = [p.grad for p in classifier.trainable().values()]
    ids_BT = torch.randint(5, 2000, (TEXTS, TOKENS))
    batch = Batch(ids_BT, torch.ones_like(ids_BT, dtype=torch.bool), torch.arange(TEXTS))
    with Trace([*classifier.parameters(), *classifier.buffers(), *gradients]) as trace:
        summed_loss(classifier, batch, torch.zeros(TEXTS, dtype=torch.long)).backward()
    return trace


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "checkpointing"),
    [*((name, False) for name in FAMILIES), ("gemma3_text", True), ("gemma4", True)],
)
def test_it_counts_what_the_real_pass_holds(tiny_model, family, checkpointing):
    blueprint = blueprint_of(tiny_model(family))
    real = real_pass(blueprint, checkpointing=checkpointing)
    classifier = blueprint.build("meta")
    if checkpointing:
        classifier.recompute_activations()
    dry = run_without_data(classifier, CPU, TEXTS, TOKENS)
    experts = family == "gemma4_moe"  # in float32 torch follows another way through them
    assert dry.activations == pytest.approx(real.peak_bytes, rel=0.1 if experts else 0.05)
    assert experts or dry.flops == pytest.approx(real.flops, rel=0.02)


@pytest.mark.slow
def test_checkpointing_holds_less_and_computes_more(tiny_gemma):
    run = DryRun(blueprint_of(tiny_gemma), CPU, longest=TOKENS)
    tokens = TEXTS * TOKENS
    plain, again = (run.footprint(tokens, checkpointing=way) for way in (False, True))
    assert again.activations < 0.8 * plain.activations
    assert (again.weights, again.adapter, again.optimizer) == (plain.weights, plain.adapter, plain.optimizer)
    assert run.flops(tokens, checkpointing=True) > 1.2 * run.flops(tokens, checkpointing=False)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "width"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_weights_are_counted_in_their_format_and_the_adapter_in_float32(tiny_gemma, dtype, width):
    blueprint = blueprint_of(tiny_gemma, dtype=dtype)
    run = DryRun(blueprint, CPU, longest=TOKENS)
    real = blueprint.build(CPU)
    found = run.footprint(TOKENS, checkpointing=False)
    trainable = sum(p.numel() for p in real.trainable().values())
    total = sum(p.numel() for p in real.parameters()) - trainable
    assert (run.total, run.trainable, run.head) == (total, trainable, 3 * 32)
    assert found.weights == pytest.approx(width * total, rel=0.01)
    assert found.adapter == found.optimizer == 8 * trainable
    assert found.total == found.weights + found.adapter + found.optimizer + found.activations + found.other


def test_activations_grow_as_tokens_do_and_a_longer_pass_is_not_run_again(tiny_gemma, monkeypatch):
    blueprint = blueprint_of(tiny_gemma)
    run = DryRun(blueprint, CPU, longest=TOKENS)
    one = run.footprint(TOKENS, checkpointing=False).activations
    monkeypatch.setattr(dry_run, "run_without_data", None)
    assert run.footprint(8 * TOKENS, checkpointing=False).activations == pytest.approx(8 * one, abs=8)
    assert run.footprint(0, checkpointing=False).activations == 0
    again = DryRun(blueprint, CPU, longest=TOKENS)
    assert again.footprint(TOKENS, checkpointing=False).activations == one, "it was kept"
    monkeypatch.setattr(dry_run, "source_hash", lambda module: "of other code")
    with pytest.raises(TypeError, match="NoneType"):  # it would be run again
        DryRun(blueprint, CPU, longest=TOKENS).footprint(TOKENS, checkpointing=False)


@pytest.mark.slow
def test_what_grows_is_linear_enough(tiny_gemma):
    meta = blueprint_of(tiny_gemma).build
    few, many = (run_without_data(meta("meta"), CPU, texts, TOKENS).activations for texts in (8, 32))
    assert many == pytest.approx(4 * few, rel=0.03)


@pytest.mark.parametrize("error", [RuntimeError("no rule"), AttributeError("no such name")])
def test_a_step_that_cannot_be_followed_is_an_error_that_says_what_to_set(tiny_gemma, monkeypatch, error):
    def fail(*args):
        raise error

    monkeypatch.setattr(dry_run, "summed_loss", fail)
    with pytest.raises(ModelError, match="cannot be followed without data: no ") as caught:
        DryRun(blueprint_of(tiny_gemma), CPU, longest=TOKENS).footprint(TOKENS, checkpointing=False)
    assert "train.micro_batch_tokens" in str(caught.value.hint)
