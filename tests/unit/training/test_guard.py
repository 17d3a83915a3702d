"""Laws of the first-steps guard: a run whose adapter does not learn, or whose base does, stops at its second step."""

import dataclasses
import functools

import numpy as np
import pytest
import tiny
import torch
from torch.utils.checkpoint import checkpoint

from tonetune.data.batches import TokenStore
from tonetune.errors import TrainingError
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier
from tonetune.training.guard import FirstSteps, checksums
from tonetune.training.loop import Plan, StepEvent, train

PLAN = Plan(
    num_steps=4,
    batch=4,
    learning_rate=5e-3,
    rate_ratio=1.0,
    schedule="cosine",
    warmup_steps=0,
    weight_decay=0.01,
    clip=1.0,
    evaluate_every=100,
    patience=None,
    select_by="accuracy",
    budget_tokens=128,
    call_tokens=8,
)
B = "model.layers.1.self_attn.v_proj.lora_B.default.weight"
BASE = "model.layers.0.mlp.up_proj.weight"


def classifier_of(directory, *, variant="lora", targets="attention", dtype=torch.float32):
    base = tiny.load(directory)
    rng = torch.Generator().manual_seed(7)
    classifier = Classifier(base.body.to(dtype), torch.randn(4, base.hidden, generator=rng) * 0.02)
    torch.manual_seed(7)
    names = target_names(base.body, base.family, targets)
    inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.0, variant=variant)
    return classifier


def steps(classifier, **changes):
    """The steps that a run gets to."""
    rng = np.random.default_rng(0)
    texts = [rng.integers(6, 1000, size=9).astype(np.int32) for _ in range(16)]
    store = TokenStore(texts, pad_id=tiny.PAD, device=torch.device("cpu"))
    plan = dataclasses.replace(PLAN, **changes)
    gold = np.arange(16) % 4
    events = train(classifier, store, gold, plan, evaluate=lambda: {"accuracy": 0.0}, rng=rng)
    return [event.step for event in events if isinstance(event, StepEvent)]


def stopped(classifier, match, *, step=2, **changes):
    with pytest.raises(TrainingError, match=match) as caught:
        steps(classifier, **changes)
    assert caught.value.where == f"step {step}" and caught.value.hint
    return caught.value.what


# --- a sound run goes on


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_sound_run_of_each_family_goes_on(tiny_model, family):
    assert steps(classifier_of(tiny_model(family), targets="all-linear"), num_steps=3) == [1, 2, 3]


@pytest.mark.parametrize("variant", ["lora", "dora", "pissa"])
@pytest.mark.parametrize(
    "changes",
    [
        {"num_steps": 1},
        {"num_steps": 2},
        {"num_steps": 3000, "warmup_steps": 2999, "patience": 1, "evaluate_every": 3},  # ends after six steps
        {"learning_rate": 1e-9},
        {"learning_rate": 1e-9, "weight_decay": 0.0},
        {"clip": 1e-6},
    ],
)
def test_short_slow_and_clipped_runs_go_on(tiny_gemma, variant, changes):
    """A magnitude of DoRA is about one: 1e-9 is lost in it, and it must not be asked to move."""
    found = steps(classifier_of(tiny_gemma, variant=variant), **changes)
    assert found == list(range(1, 1 + min(6, changes.get("num_steps", 4))))


def test_a_body_in_bfloat16_that_recomputes_activations_goes_on(tiny_gemma):
    classifier = classifier_of(tiny_gemma, dtype=torch.bfloat16)
    classifier.recompute_activations()
    assert steps(classifier) == [1, 2, 3, 4]


# --- what does not learn


@pytest.mark.parametrize("num_steps", [1, 2, 4])
def test_a_matrix_without_a_gradient_is_named(tiny_gemma, num_steps):
    classifier = classifier_of(tiny_gemma)
    classifier.get_parameter(B).register_hook(torch.zeros_like)
    what = stopped(classifier, "no gradient has reached 1 parameters", step=min(2, num_steps), num_steps=num_steps)
    assert B in what


def test_a_head_without_a_gradient_is_named_although_weight_decay_moves_it(tiny_gemma):
    classifier = classifier_of(tiny_gemma)
    classifier.score.weight.register_hook(torch.zeros_like)
    start = classifier.score.weight.detach().clone()
    assert "score.weight" in stopped(classifier, "no gradient has reached 1 parameters", weight_decay=0.1)
    assert not torch.equal(classifier.score.weight, start)


def test_a_matrix_of_pissa_without_a_gradient_is_named_although_weight_decay_moves_it(tiny_gemma):
    classifier = classifier_of(tiny_gemma, variant="pissa")
    classifier.get_parameter(B).register_hook(torch.zeros_like)
    assert B in stopped(classifier, "no gradient has reached 1 parameters", weight_decay=0.1)


def test_what_pissa_subtracts_is_guarded_like_the_base(tiny_gemma):
    classifier = classifier_of(tiny_gemma, variant="pissa")
    name = B.replace("default", "start")
    writes_to(classifier, name, last_bit)
    assert name in stopped(classifier, "frozen, but changed, are 1 parameters", num_steps=1, step=1)


def test_a_magnitude_without_a_gradient_is_named(tiny_gemma):
    classifier = classifier_of(tiny_gemma, variant="dora")
    (name, *_) = (name for name in classifier.trainable() if "magnitude" in name)
    classifier.get_parameter(name).register_hook(torch.zeros_like)
    assert name in stopped(classifier, "no gradient has reached 1 parameters")


def test_layers_cut_off_from_the_loss_are_named(tiny_gemma):
    """As frozen inputs cut them off when checkpointing loses their gradients."""
    classifier = classifier_of(tiny_gemma)
    classifier.model.layers[0].register_forward_hook(lambda module, args, output: output.detach())
    what = stopped(classifier, "no gradient has reached 3 parameters")
    assert what.count("model.layers.0.") == 3


def test_layers_that_the_model_goes_around_while_it_trains_are_named(tiny_model):
    """transformers multiplies with the clamped weight of these itself, so that an adapter on them learns nothing."""
    classifier = classifier_of(tiny_model("gemma3n_text"), targets=["q_proj", "correction_coefs"])
    assert "correction_coefs" in stopped(classifier, "no gradient has reached 4 parameters")


def test_gradients_that_are_too_small_for_float16_stop_the_run(tiny_gemma):
    classifier = classifier_of(tiny_gemma, dtype=torch.float16)
    with torch.no_grad():
        classifier.score.weight.mul_(1e-8)
    assert "lora_B" in stopped(classifier, "no gradient has reached 6 parameters", learning_rate=1e-12)


def test_a_parameter_that_the_optimiser_forgets_is_named(tiny_gemma, monkeypatch):
    classifier = classifier_of(tiny_gemma)
    forgotten = classifier.get_parameter(B)
    whole = torch.optim.AdamW

    def partial(groups, **settings):
        rest = [group | {"params": [p for p in group["params"] if p is not forgotten]} for group in groups]
        return whole(rest, **settings)

    monkeypatch.setattr(torch.optim, "AdamW", partial)
    assert B in stopped(classifier, "no step has moved 1 parameters")


def test_a_learning_rate_that_float32_loses_is_named(tiny_gemma):
    assert "score.weight" in stopped(
        classifier_of(tiny_gemma), "no step has moved 1 parameters", learning_rate=1e-30, weight_decay=0.0
    )


# --- a base that moves


def writes_to(classifier, name, change):
    """Whenever the first layer runs, the parameter of this name is changed."""
    parameter = classifier.get_parameter(name)

    def write(module, args):
        with torch.no_grad():
            change(parameter.data.view(-1))

    classifier.model.layers[0].register_forward_pre_hook(write)


def swap(values):
    values[[3, 4]] = values[[4, 3]]


def last_bit(values):
    values[-1:].view(torch.int32).bitwise_xor_(1)


@pytest.mark.parametrize("change", [last_bit, swap])
def test_a_base_that_changes_is_named(tiny_gemma, change):
    classifier = classifier_of(tiny_gemma)
    done = []
    writes_to(classifier, BASE, lambda values: done or (change(values), done.append(1)))
    assert stopped(classifier, "frozen, but changed, are 1 parameters").endswith(BASE)


def test_a_base_that_the_optimiser_moves_is_named(tiny_gemma):
    """Unfrozen when the optimiser was made, so that it holds the base too."""
    classifier = classifier_of(tiny_gemma)
    norm = classifier.get_parameter("model.norm.weight")
    guard = FirstSteps(classifier, num_steps=2)
    norm.requires_grad_(True)
    optimizer = torch.optim.AdamW([*classifier.trainable().values()], lr=1e-3)
    ids = torch.arange(8)[None] + 10
    for step in (1, 2):
        classifier(ids, torch.ones_like(ids)).sum().backward()
        optimizer.step()
        if step == 1:
            guard.step(step)
    with pytest.raises(TrainingError, match=r"frozen, but changed, are 1 parameters: model\.norm\.weight"):
        guard.step(step)


def test_the_guard_looks_at_two_steps_and_no_more(tiny_gemma):
    classifier = classifier_of(tiny_gemma)
    calls = []
    writes_to(classifier, BASE, lambda values: calls.append(1) or (len(calls) > 2 and last_bit(values)))
    assert steps(classifier, budget_tokens=10**6) == [1, 2, 3, 4] and len(calls) == 4


# --- reentrant checkpointing


def test_reentrant_checkpointing_is_refused_before_the_first_step(tiny_model):
    classifier = classifier_of(tiny_model("gemma4"))
    classifier.recompute_activations()
    for layer in classifier.model.layers:
        layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=True)
    with pytest.raises(TrainingError, match="reentrant checkpointing computes wrong gradients") as caught:
        steps(classifier)
    assert caught.value.where == "train.checkpointing"


# --- checksums


def bits(dtype, number):
    """A tensor of any type, made of bytes that say nothing."""
    size = torch.zeros((), dtype=dtype).element_size()
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 2, (number * size,), dtype=torch.uint8, generator=generator).view(dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.uint8, torch.int8, torch.float64]
)
@pytest.mark.parametrize("number", [1, 5, 1023, 8192, 40_003])
def test_every_bit_counts(dtype, number):
    tensor = bits(dtype, number)
    sum_ = checksums({"x": tensor})["x"]
    assert checksums({"x": tensor.clone()})["x"] == sum_
    flat = tensor.view(torch.uint8)
    for place in {0, len(flat) // 3, len(flat) // 2 + 1, len(flat) - 1} & set(range(len(flat))):
        for bit in (1, 128):
            flat[place] ^= bit
            assert checksums({"x": tensor})["x"] != sum_
            flat[place] ^= bit
    assert checksums({"x": tensor})["x"] == sum_


def test_places_count():
    """Two values that change places, next to each other or anywhere in a matrix, are another tensor."""
    tensor = torch.arange(50_000, dtype=torch.float32)
    sum_ = checksums({"x": tensor})["x"]
    rng = np.random.default_rng(0)
    for first, second in [(0, 1), (0, 2048), (5, 49_999), *rng.integers(50_000, size=(50, 2)).tolist()]:
        other = tensor.clone()
        other[[first, second]] = tensor[[second, first]]
        assert (checksums({"x": other})["x"] == sum_) == (first == second)


def test_shape_and_memory_layout_do_not_matter():
    tensor = torch.randn(60, 70)
    apart = torch.empty(4201)[1:].copy_(tensor.flatten()).view(60, 70)
    found = checksums({"x": tensor, "columns": tensor.t().contiguous().t(), "apart": apart})
    assert found["x"] == found["columns"] == found["apart"]
    assert checksums({"empty": torch.empty(0), "one": torch.tensor(3.0)})["empty"] == 0
