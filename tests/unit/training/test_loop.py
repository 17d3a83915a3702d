"""Laws of training: the gradient does not depend on the cut, the base stays, and a seed decides everything."""

import dataclasses
import math

import numpy as np
import pytest
import tiny
import torch

from tonetune.data.batches import TokenStore
from tonetune.data.template import Template
from tonetune.device.memory import HOST_FULL
from tonetune.errors import TrainingError
from tonetune.evaluation.predict import score
from tonetune.labels import LabelSet
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.artefact import text_tokenizer
from tonetune.model.classifier import Classifier
from tonetune.model.head import random_head
from tonetune.training import gradient as gradient_module
from tonetune.training import loop
from tonetune.training.gradient import accumulate
from tonetune.training.loop import (
    MemoryEvent,
    Plan,
    SkippedEvent,
    StepEvent,
    Stopwatch,
    ValidationEvent,
    steps_for,
    train,
)
from tonetune.training.order import batches

CPU = torch.device("cpu")
PLAN = Plan(
    num_steps=12,
    batch=8,
    learning_rate=5e-3,
    rate_ratio=1.0,
    schedule="cosine",
    warmup_steps=2,
    weight_decay=0.01,
    clip=1.0,
    evaluate_every=5,
    patience=None,
    select_by="accuracy",
    budget_tokens=128,
    call_tokens=8,
)


def classifier_of(directory, *, dropout=0.1, targets="attention"):
    """A classifier with adapters as a run starts it, and the text tokenizer to it."""
    base = tiny.load(directory)
    rng = torch.Generator().manual_seed(7)
    classifier = Classifier(base.body, random_head(4, base.hidden, generator=rng))
    torch.manual_seed(7)  # PEFT draws A from torch's own generator
    names = target_names(base.body, base.family, targets)
    inject_lora(classifier, names, rank=4, alpha=8.0, dropout=dropout, variant="lora")
    return classifier, text_tokenizer(base, template=Template.parse("{text}\nSentiment:"), max_length=64)


def data(tokenizer, *, language="en", num_rows=64):
    rows = tiny.emotion_rows(language, num_rows)
    labels = LabelSet.from_values(label for _, label in rows)
    store = TokenStore(tokenizer.encode([text for text, _ in rows]).ids, pad_id=tokenizer.pad_id, device=CPU)
    return store, np.array([labels.index(label) for _, label in rows])


def run(classifier, store, gold, plan=PLAN, *, seed=0, evaluate=None):
    torch.manual_seed(seed)  # dropout
    scores = evaluate or (lambda: {"accuracy": accuracy(classifier, store, gold)})
    return list(train(classifier, store, gold, plan, evaluate=scores, rng=np.random.default_rng(seed)))


def accuracy(classifier, store, gold):
    found = score(classifier, store, budget_tokens=512, call_tokens=8).argmax(axis=1)
    return float((found == gold).mean())


def moved(classifier):
    """Let every adapter matter: a fresh B is zero, and so is then the gradient of A."""
    rng = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return classifier


def gradients(classifier):
    found = {name: parameter.grad.clone() for name, parameter in classifier.trainable().items()}
    classifier.zero_grad(set_to_none=True)
    return found


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        scale = float(expected[name].abs().max())
        assert scale > 1e-6, f"{name} has no gradient to compare"
        difference = float((gradient - expected[name]).abs().max())
        assert difference < 2e-5 * max(1.0, scale), name


# --- the gradient


@pytest.fixture(scope="module", params=["gemma3_text", "llama"])
def at_rest(tiny_model, request):
    """A moved classifier without dropout, its data, rows of a batch, and that batch's gradient in one unsplit pass."""
    classifier, tokenizer = classifier_of(tiny_model(request.param), dropout=0.0, targets="all-linear")
    moved(classifier).train()
    store, gold = data(tokenizer, num_rows=40)
    rows = np.random.default_rng(1).permutation(40)[:17]
    batch = store.batch(rows)
    loss = torch.nn.functional.cross_entropy(classifier(batch.ids_BT, batch.mask_BT), torch.from_numpy(gold[rows]))
    loss.backward()
    return classifier, store, torch.from_numpy(gold), rows, float(loss.detach()), gradients(classifier)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 40, 100, 257, 10**6])
@pytest.mark.parametrize("call", [0, 48])
def test_the_gradient_does_not_depend_on_the_cut(at_rest, budget, call):
    classifier, store, gold, rows, loss, expected = at_rest
    found = accumulate(classifier, store, gold, rows, budget_tokens=budget, call_tokens=call)
    assert float(found) == pytest.approx(loss, abs=1e-5)
    same(gradients(classifier), expected)


def test_the_gradient_of_several_labels_does_not_depend_on_the_cut(tiny_gemma):
    """The loss is the mean over texts and labels of one whole batch, whatever the micro-batches."""
    classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0, targets="all-linear")
    moved(classifier).train()
    store, _ = data(tokenizer, num_rows=40)
    gold, rows = torch.rand(40, 4, generator=torch.Generator().manual_seed(3)) < 0.3, np.arange(3, 20)
    batch = store.batch(rows)
    logits = classifier(batch.ids_BT, batch.mask_BT)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[rows].float())
    loss.backward()
    expected = gradients(classifier)
    for budget in (1, 100, 10**6):
        found = accumulate(classifier, store, gold, rows, budget_tokens=budget, call_tokens=48)
        assert float(found) == pytest.approx(float(loss.detach()), abs=1e-5)
        same(gradients(classifier), expected)


def test_several_labels_are_learnt(tiny_gemma):
    """Each label of the corpus and its absence: the loss of an epoch falls below that of guessing their shares."""
    classifier, tokenizer = classifier_of(tiny_gemma)
    store, gold = data(tokenizer)
    events = run(classifier, store, np.eye(4, dtype=bool)[gold], dataclasses.replace(PLAN, num_steps=60),
                 evaluate=lambda: {"accuracy": 0.0})  # fmt: skip
    losses = [event.loss for event in events if isinstance(event, StepEvent)]
    assert np.mean(losses[-8:]) < 0.95 * -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) < np.mean(losses[:4])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemma3_text", "gemma4", "gemma3n_text", "llama"])
def test_the_gradient_does_not_depend_on_what_is_computed_again(tiny_model, family):
    """In gemma4 and gemma3n_text the last layers reuse keys and values: re-entrant checkpoints get them wrong."""

    def step(*, again):
        classifier, tokenizer = classifier_of(tiny_model(family), dropout=0.0, targets="all-linear")
        moved(classifier).train()
        if again:
            classifier.recompute_activations()
        store, gold = data(tokenizer, num_rows=12)
        rows, labels = np.arange(12), torch.from_numpy(gold)
        loss = accumulate(classifier, store, labels, rows, budget_tokens=200, call_tokens=8)
        return float(loss), gradients(classifier)

    (loss, expected), (loss_again, found) = step(again=False), step(again=True)
    assert loss_again == pytest.approx(loss, abs=1e-6)
    same(found, expected)


@pytest.mark.parametrize("sizes", [[17], [16, 1], [1, 5, 11], [1] * 17])
def test_the_gradient_is_that_of_any_partition_weighted_by_its_texts(at_rest, sizes):
    """The sum over parts of (texts in the part / texts) times the gradient of the part's own mean loss."""
    classifier, store, gold, rows, loss, _ = at_rest
    total, losses, begin = {}, 0.0, 0
    for size in sizes:
        part = rows[begin : begin + size]
        losses += float(accumulate(classifier, store, gold, part, budget_tokens=90, call_tokens=4)) * size / len(rows)
        for name, gradient in gradients(classifier).items():
            total[name] = total.get(name, 0) + gradient * size / len(rows)
        begin += size
    accumulate(classifier, store, gold, rows, budget_tokens=300, call_tokens=4)
    assert losses == pytest.approx(loss, abs=1e-5)
    same(gradients(classifier), total)


@pytest.mark.parametrize("budget", [1, 100, 10**6])
def test_a_weight_counts_a_text_as_often_and_does_not_depend_on_the_cut(at_rest, budget):
    """Texts of class c weighted by k have the gradient of the same texts taken k times, over as many as there are."""
    classifier, store, gold, rows, _, _ = at_rest
    weights = (1, 3, 0, 2)
    repeated = np.repeat(rows, np.array(weights)[gold.numpy()[rows]])
    found = accumulate(
        classifier, store, gold, rows, budget_tokens=budget, call_tokens=4, weights_C=torch.tensor(weights).float()
    )
    weighted = gradients(classifier)
    plain = accumulate(classifier, store, gold, repeated, budget_tokens=300, call_tokens=4)
    more = len(repeated) / len(rows)
    assert float(found) == pytest.approx(float(plain) * more, rel=1e-5)
    same(weighted, {name: gradient * more for name, gradient in gradients(classifier).items()})


def test_weights_of_the_plan_reach_the_loss(tiny_gemma):
    classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0)
    store, gold = data(tokenizer, num_rows=8)
    losses = -torch.from_numpy(score(classifier, store, budget_tokens=512, call_tokens=8)).log_softmax(1)
    by_hand = float((losses[range(8), gold] * torch.tensor([1.0, 2.0, 3.0, 4.0])[gold]).mean())
    weights = tuple(np.array([1.0, 2.0, 3.0, 4.0]))
    first, *_ = run(classifier, store, gold, dataclasses.replace(PLAN, class_weights=weights))
    assert first.loss == pytest.approx(by_hand, rel=1e-4)


def test_gradients_add_up_over_calls(at_rest):
    classifier, store, gold, rows, _, expected = at_rest
    for _ in range(2):
        accumulate(classifier, store, gold, rows, budget_tokens=200, call_tokens=4)
    same(gradients(classifier), {name: 2 * gradient for name, gradient in expected.items()})


# --- training


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_training_lowers_the_loss_and_changes_adapter_and_head_alone(tiny_gemma, language):
    classifier, tokenizer = classifier_of(tiny_gemma)
    store, gold = data(tokenizer, language=language)
    before = {name: parameter.detach().clone() for name, parameter in classifier.named_parameters()}
    first = accuracy(classifier, store, gold)
    events = run(classifier, store, gold, dataclasses.replace(PLAN, num_steps=40, learning_rate=1e-2))
    losses = [event.loss for event in events if isinstance(event, StepEvent)]
    assert np.mean(losses[-8:]) < 0.7 * np.mean(losses[:8])
    assert accuracy(classifier, store, gold) > first
    trained = classifier.trainable()
    for name, parameter in classifier.named_parameters():
        changed = not torch.equal(parameter, before[name])
        assert changed == (name in trained), name
    assert sum("lora_B" in name for name in trained) == 6


def test_events_say_what_happened(tiny_gemma):
    classifier, tokenizer = classifier_of(tiny_gemma)
    store, gold = data(tokenizer, num_rows=20)  # 3 steps a pass, the last of 4 texts
    events = run(classifier, store, gold)
    steps = [event for event in events if isinstance(event, StepEvent)]
    assert [event.step for event in steps] == list(range(1, 13))
    assert [event.num_texts for event in steps] == [8, 8, 4] * 4
    assert [event.epoch for event in steps] == pytest.approx([i / 3 for i in range(1, 13)])
    for begin in range(0, 12, 3):
        assert sum(event.num_tokens for event in steps[begin : begin + 3]) == store.lengths.sum()
    assert steps[0].learning_rate == pytest.approx(2.5e-3) and steps[1].learning_rate == 5e-3
    assert all(event.grad_norm > 0 for event in steps)
    validations = [event for event in events if isinstance(event, ValidationEvent)]
    assert [event.step for event in validations] == [5, 10, 12]
    assert validations[0].improved


def test_every_text_is_seen_once_a_pass_and_each_pass_has_its_own_order():
    found = list(batches(20, PLAN.batch, PLAN.num_steps, np.random.default_rng(0)))
    assert len(found) == PLAN.num_steps
    passes = [np.concatenate(found[begin : begin + 3]).tolist() for begin in range(0, 12, 3)]
    assert all(sorted(order) == list(range(20)) for order in passes)
    assert len({tuple(order) for order in passes}) == 4


def test_the_first_loss_is_that_of_the_classifier_as_it_is(tiny_gemma):
    classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0)
    store, gold = data(tokenizer, num_rows=8)
    logits = torch.from_numpy(score(classifier, store, budget_tokens=512, call_tokens=8))
    expected = float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(gold)))
    first = run(classifier, store, gold, dataclasses.replace(PLAN, num_steps=1))[0]
    assert first.loss == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_events_and_another_does_not(tiny_gemma):
    def events(seed):
        classifier, tokenizer = classifier_of(tiny_gemma)
        return run(classifier, *data(tokenizer), seed=seed)

    assert events(1) == events(1)
    assert [e.loss for e in events(1) if isinstance(e, StepEvent)] != [
        e.loss for e in events(2) if isinstance(e, StepEvent)
    ]


@pytest.mark.parametrize("ratio", [1.0, 16.0])
def test_a_learns_so_many_times_slower_than_b_and_the_head(tiny_gemma, ratio):
    """AdamW's first step is as long as the learning rate wherever there is a gradient; A's comes with the second."""
    classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0)
    before = classifier.snapshot()
    plan = dataclasses.replace(
        PLAN, num_steps=2, warmup_steps=0, schedule="constant", learning_rate=1e-4, weight_decay=0.0, rate_ratio=ratio
    )
    events = train(classifier, *data(tokenizer), plan, evaluate=lambda: {"accuracy": 0.0}, rng=np.random.default_rng(0))
    assert next(events).learning_rate == 1e-4
    first = classifier.snapshot()
    next(events)
    second = classifier.snapshot()
    for name in before:
        if "lora_A" in name:
            assert torch.equal(first[name], before[name])
            moved_by = (second[name] - first[name]).abs().max() * ratio
            assert 0.3e-4 < moved_by < 1.01e-4, "a first gradient at the second step: at most the whole rate"
        else:
            assert (first[name] - before[name]).abs().max() == pytest.approx(1e-4, rel=1e-2)


def test_every_parameter_is_in_one_group(tiny_gemma):
    classifier, _ = classifier_of(tiny_gemma)
    slow, rest = loop.parameter_groups(classifier, 4.0)
    assert (slow["share"], rest["share"]) == (0.25, 1.0)
    grouped = [id(p) for group in (slow, rest) for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in classifier.trainable().values())
    assert [p.shape[0] for p in slow["params"]] == [4] * 6, "matrices A, of rank 4"


def test_a_long_gradient_is_clipped_and_a_short_one_is_not(tiny_gemma):
    """Seen by the optimiser, because the steps of AdamW do not show how long a gradient is."""
    classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0)
    store, gold = data(tokenizer, num_rows=8)
    norms = []

    class Watched(torch.optim.AdamW):
        def step(self, closure=None):
            grads = [p.grad for group in self.param_groups for p in group["params"]]
            norms.append(float(torch.nn.utils.get_total_norm(grads)))
            return super().step(closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "AdamW", Watched)
        for clip in (1e-3, 1e3):
            event = run(classifier, store, gold, dataclasses.replace(PLAN, num_steps=1, clip=clip))[0]
            assert norms[-1] == pytest.approx(min(clip, event.grad_norm), rel=1e-3)


# --- stopping


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patience", "scores", "ends"),
    [
        (None, [0.5, 0.4, 0.3, 0.2, 0.1, 0.0], 12),
        (1, [0.5, 0.4], 4),
        (2, [0.5, 0.4, 0.5], 6),
        (2, [0.5, 0.4, 0.6, 0.6, 0.1], 10),
        (2, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 12),
    ],
)
def test_training_ends_after_so_many_validations_without_a_gain(tiny_gemma, patience, scores, ends):
    classifier, tokenizer = classifier_of(tiny_gemma)
    plan = dataclasses.replace(PLAN, evaluate_every=2, patience=patience)
    given = iter(scores)
    store, gold = data(tokenizer, num_rows=8)
    events = run(classifier, store, gold, plan, evaluate=lambda: {"accuracy": next(given)})
    assert max(event.step for event in events) == ends
    found = [event for event in events if isinstance(event, ValidationEvent)]
    best = -math.inf
    for event, value in zip(found, scores, strict=True):
        assert event.scores == {"accuracy": value} and event.improved == (value > best)
        best = max(best, value)


def short_of_memory(monkeypatch, most_tokens, error):
    """A device on which a pass over more tokens than that, pads included, runs out in its backward pass."""
    whole = gradient_module.summed_loss

    def summed_loss(classifier, batch, *how):
        loss = whole(classifier, batch, *how)
        if batch.ids_BT.numel() > most_tokens:
            loss.register_hook(lambda grad: (_ for _ in ()).throw(error))
        return loss

    monkeypatch.setattr(gradient_module, "summed_loss", summed_loss)


OUT = [torch.cuda.OutOfMemoryError("full"), RuntimeError(f"{HOST_FULL}: 12 bytes"), MemoryError()]


@pytest.mark.slow
@pytest.mark.parametrize("error", OUT, ids=lambda error: type(error).__name__)
def test_where_memory_runs_out_the_step_is_done_again_in_smaller_parts(tiny_gemma, monkeypatch, error):
    def events(plan):
        classifier, tokenizer = classifier_of(tiny_gemma, dropout=0.0)
        return run(classifier, *data(tokenizer, num_rows=24), plan)

    roomy = dataclasses.replace(PLAN, num_steps=4, budget_tokens=1000)
    whole = [e for e in events(roomy) if isinstance(e, StepEvent)]
    short_of_memory(monkeypatch, 70, error)
    found = events(roomy)
    tight = [e for e in found if isinstance(e, StepEvent)]
    shrinking = [e for e in found if isinstance(e, MemoryEvent)]
    assert [e.budget_tokens for e in shrinking] == [500, 250, 125, 62][: len(shrinking)] and len(shrinking) >= 2
    assert found[: len(shrinking)] == shrinking and {e.step for e in shrinking} == {1}, "later steps are cut so at once"
    assert [(e.num_texts, e.num_tokens, e.learning_rate) for e in tight] == [
        (e.num_texts, e.num_tokens, e.learning_rate) for e in whole
    ]
    for one, other in zip(tight, whole, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5) and one.grad_norm == pytest.approx(
            other.grad_norm, rel=1e-3
        )


def test_where_not_even_one_text_fits_it_is_an_error(tiny_gemma, monkeypatch):
    classifier, tokenizer = classifier_of(tiny_gemma)
    short_of_memory(monkeypatch, 1, torch.cuda.OutOfMemoryError("full"))
    with pytest.raises(torch.cuda.OutOfMemoryError):
        run(classifier, *data(tokenizer))


def test_another_error_is_not_taken_for_want_of_memory(tiny_gemma, monkeypatch):
    classifier, tokenizer = classifier_of(tiny_gemma)
    short_of_memory(monkeypatch, 1, RuntimeError("HIP error: invalid argument"))
    with pytest.raises(RuntimeError, match="invalid argument"):
        run(classifier, *data(tokenizer))


@pytest.mark.parametrize("place", ["model.layers.0.mlp.down_proj", "model.layers.1.self_attn.q_proj.lora_B.default"])
def test_the_module_that_is_not_finite_first_is_named(tiny_gemma, place):
    classifier, tokenizer = classifier_of(tiny_gemma)
    classifier.get_submodule(place).register_forward_hook(lambda module, inputs, out: out / 0)
    with pytest.raises(TrainingError, match=f"the loss is nan; the first that is not finite is the output of {place}"):
        run(classifier, *data(tokenizer, num_rows=8))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_at_its_step(tiny_gemma, value):
    classifier, tokenizer = classifier_of(tiny_gemma)
    store, gold = data(tokenizer, num_rows=24)
    events = train(classifier, store, gold, PLAN, evaluate=lambda: {"accuracy": 0.0}, rng=np.random.default_rng(0))
    assert [next(events).step for _ in range(2)] == [1, 2]
    with torch.no_grad():
        classifier.score.weight[0, 0] = value
    before = classifier.snapshot()
    with pytest.raises(TrainingError, match="the loss is nan") as caught:
        next(events)
    assert caught.value.where == "step 3" and "float32" in str(caught.value.hint)
    assert all(torch.equal(p, before[n]) for n, p in classifier.trainable().items() if n != "score.weight")


def test_a_step_whose_gradient_is_not_finite_changes_nothing_and_is_told(tiny_gemma, monkeypatch):
    """One text of 24 has a gradient that is not finite: of each pass of three steps, one is skipped."""
    whole, bad_row = gradient_module.summed_loss, 5

    def summed_loss(classifier, batch, *rest):
        zero = (0.0 * classifier.score.weight.sum()).sqrt()  # whose gradient is 0 · ∞
        return whole(classifier, batch, *rest) + (zero if bool((batch.rows_B == bad_row).any()) else 0.0)

    monkeypatch.setattr(gradient_module, "summed_loss", summed_loss)
    classifier, tokenizer = classifier_of(tiny_gemma)
    store, gold = data(tokenizer, num_rows=24)
    plan = dataclasses.replace(PLAN, num_steps=6, evaluate_every=2)
    kept, skipped, validated = [], [], []
    before = classifier.snapshot()
    for event in train(classifier, store, gold, plan, evaluate=lambda: {"accuracy": 0.0}, rng=np.random.default_rng(0)):
        if isinstance(event, SkippedEvent):
            assert all(torch.equal(p, before[name]) for name, p in classifier.trainable().items())
            assert math.isfinite(event.loss) and event.culprit == "the gradient of score.weight"
            skipped.append(event.step)
        elif isinstance(event, StepEvent):
            assert any(not torch.equal(p, before[name]) for name, p in classifier.trainable().items())
            kept.append(event.step)
        else:
            validated.append(event.step)
        before = classifier.snapshot()
    assert sorted(kept + skipped) == [1, 2, 3, 4, 5, 6] and validated == [2, 4, 6]
    assert [(step - 1) // 3 for step in skipped] == [0, 1]


@pytest.mark.parametrize(("num_steps", "last"), [(12, loop.MOST_SKIPPED), (3, 3)])
def test_gradients_that_are_never_finite_stop_the_run(tiny_gemma, num_steps, last):
    classifier, tokenizer = classifier_of(tiny_gemma)
    classifier.score.weight.register_hook(lambda grad: grad * float("nan"))
    before = classifier.snapshot()
    with pytest.raises(TrainingError, match="the loss is finite but the gradient's norm is nan") as caught:
        run(
            classifier,
            *data(tokenizer),
            dataclasses.replace(PLAN, num_steps=num_steps),
            evaluate=lambda: {"accuracy": 0},
        )
    assert caught.value.where == f"step {last}"
    assert caught.value.what.endswith("the first that is not finite is the gradient of score.weight")
    assert all(torch.equal(p, before[name]) for name, p in classifier.trainable().items())


@pytest.mark.slow
def test_an_overflow_of_float16_stops_at_its_step(tiny_gemma):
    """The same weights train in float32 and in bfloat16."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        classifier, tokenizer = classifier_of(tiny_gemma)
        with torch.no_grad():
            classifier.model.norm.weight.add_(1e5)
        classifier.model.to(dtype)
        if dtype != torch.float16:
            run(classifier, *data(tokenizer, num_rows=8), dataclasses.replace(PLAN, num_steps=2))
            continue
        with pytest.raises(TrainingError, match="the loss is") as caught:
            run(classifier, *data(tokenizer, num_rows=8))
        assert caught.value.where == "step 1" and "float32" in caught.value.hint


# --- counting


@pytest.mark.parametrize(
    ("num_texts", "epochs", "batch", "steps"),
    [(64, 1.0, 32, 2), (65, 1.0, 32, 3), (65, 2.0, 32, 6), (5, 1.0, 32, 1), (100, 0.5, 10, 5), (3, 0.01, 32, 1)],
)
def test_steps_are_counted_with_the_unfinished_batch(num_texts, epochs, batch, steps):
    assert steps_for(num_texts, epochs=epochs, batch=batch) == steps


@pytest.mark.parametrize(
    ("batches", "epochs", "steps"), [(10, 1.1, 11), (50, 1.1, 55), (7, 0.1, 1), (1000, 1.001, 1001)]
)
def test_a_fraction_of_a_pass_counts_as_it_is_written(batches, epochs, steps):
    """In binary 50 · 1.1 is 55.00000000000001."""
    assert steps_for(batches, epochs=epochs, batch=1) == steps


def test_the_stopwatch_counts_training_alone(monkeypatch):
    clock = iter([0.0, 2.0, 12.0, 14.0])  # start, step, validation, step
    monkeypatch.setattr(loop.time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    assert (watch.texts_per_s, watch.tokens_per_s) == (0.0, 0.0)
    event = StepEvent(step=1, epoch=1.0, loss=1.0, learning_rate=1.0, grad_norm=1.0, num_texts=8, num_tokens=100)
    watch.step(event)
    watch.skip()
    watch.step(event)
    assert (watch.train_s, watch.texts_per_s, watch.tokens_per_s) == (4.0, 4.0, 50.0)
