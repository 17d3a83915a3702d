"""Laws of the classifier: logits depend on the text alone, and the state pooled is that of its last real token."""

import functools

import numpy as np
import pytest
import tiny
import torch
from torch.utils.checkpoint import checkpoint

from tonetune.data.batches import TokenStore
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier, pool_last

LENGTHS = [1, 2, 5, tiny.WINDOW, tiny.WINDOW + 1, 3 * tiny.WINDOW, 30, 7]


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return [rng.integers(6, 1000, size=n).astype(np.int32) for n in LENGTHS]


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def classifier(tiny_model, request):
    base = tiny.load(tiny_model(request.param))
    return Classifier(base.body, torch.randn(3, base.hidden, generator=torch.Generator().manual_seed(1))).eval()


@torch.no_grad()
def alone(classifier, texts):
    rows = [torch.from_numpy(text).long()[None] for text in texts]
    return torch.cat([classifier(ids, torch.ones_like(ids, dtype=torch.bool)) for ids in rows])


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=3e-5)


# --- padding


def test_texts_differ_so_that_equal_logits_mean_something(classifier, texts):
    logits = alone(classifier, texts)
    assert logits.dtype == torch.float32 and logits.shape == (len(texts), 3)
    assert torch.cdist(logits, logits)[~torch.eye(len(texts), dtype=torch.bool)].min() > 1e-2


@pytest.mark.parametrize("right_padded", [True, False])
@pytest.mark.parametrize("rows", [list(range(8)), [3, 0], [7, 5, 5, 1], [6]])
def test_padding_on_the_right_changes_nothing(classifier, texts, rows, right_padded):
    batch = TokenStore(texts, pad_id=tiny.PAD, device=torch.device("cpu")).batch(np.array(rows))
    with torch.no_grad():
        close(classifier(batch.ids_BT, batch.mask_BT, right_padded=right_padded), alone(classifier, texts)[rows])


@pytest.mark.parametrize("width", [30, 41])
def test_padding_on_the_left_changes_nothing(classifier, texts, width):
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    for row, text in zip(ids, texts, strict=True):
        row[width - len(text) :] = torch.from_numpy(text)
    with torch.no_grad():
        close(classifier(ids, ids != tiny.PAD), alone(classifier, texts))


def test_what_stands_on_a_pad_changes_nothing(classifier, texts):
    batch = TokenStore(texts, pad_id=tiny.PAD, device=torch.device("cpu")).batch(np.arange(len(texts)))
    other = torch.where(batch.mask_BT, batch.ids_BT, 99)
    with torch.no_grad():
        for right_padded in (True, False):
            close(classifier(other, batch.mask_BT, right_padded=right_padded), alone(classifier, texts))


def test_the_sliding_window_is_felt(tiny_gemma):
    """One sliding and one full layer; with both sliding, tokens further back than twice the window have no say."""
    from transformers import AutoModel

    body = AutoModel.from_pretrained(tiny_gemma, layer_types=["sliding_attention"] * 2).eval()
    short = Classifier(body, torch.randn(3, 32, generator=torch.Generator().manual_seed(1))).eval()
    full = Classifier(tiny.load(tiny_gemma).body, short.score.weight.detach()).eval()
    ids = torch.arange(10, 10 + 3 * tiny.WINDOW)[None]
    changed = ids.clone()
    changed[0, 0] = 700
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        assert torch.equal(short(ids, mask, right_padded=True), short(changed, mask, right_padded=True))
        assert not torch.allclose(full(ids, mask, right_padded=True), full(changed, mask, right_padded=True), atol=1e-4)


# --- recomputing activations


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def adapted(tiny_model, request):
    """A classifier in training mode with an adapter on every linear layer that matters already; B is not zero."""
    base = tiny.load(tiny_model(request.param))
    rng = torch.Generator().manual_seed(1)
    classifier = Classifier(base.body, torch.randn(3, base.hidden, generator=rng))
    names = target_names(base.body, base.family, "all-linear")
    inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.0, variant="lora")
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return classifier.train()


def gradients(classifier):
    ids = torch.tensor([[2, 10, 11, 12, 400, 31, 32], [2, 700, 11, 9, 8, 7, 6]])
    classifier(ids, torch.ones_like(ids, dtype=torch.bool), right_padded=True).square().sum().backward()
    found = {name: p.grad for name, p in classifier.trainable().items()}
    classifier.zero_grad(set_to_none=True)
    return found


def cosine(a, b):
    return float(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0))


def reentrant(classifier):
    """Recompute in the way that `recompute_activations` never does."""
    for layer in classifier.model.layers:
        layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=True)


def test_recomputing_activations_changes_no_gradient_and_reentrant_recomputing_does(adapted):
    """Where layers share keys and values; and where the first layer's inputs are frozen, as they are in LoRA."""
    kept = gradients(adapted)
    assert all(gradient.any() for gradient in kept.values())
    adapted.recompute_activations()
    layers = adapted.model.layers
    assert all(layer.gradient_checkpointing for layer in layers)
    assert not any(layer._gradient_checkpointing_func.keywords["use_reentrant"] for layer in layers)
    recomputed = gradients(adapted)
    assert min(cosine(recomputed[name], kept[name]) for name in kept) > 1 - 1e-6
    adapted.model.disable_input_require_grads()  # transformers makes the inputs learn for the other kind's sake
    assert min(cosine(gradient, kept[name]) for name, gradient in gradients(adapted).items()) > 1 - 1e-6
    reentrant(adapted)
    with pytest.warns(UserWarning, match="Gradients will be None"):
        lost = gradients(adapted)
    assert [name for name, gradient in lost.items() if gradient is not None] == ["score.weight"]
    adapted.model.enable_input_require_grads()
    worst = min(cosine(gradient, kept[name]) for name, gradient in gradients(adapted).items())
    shared = getattr(adapted.model.config, "num_kv_shared_layers", 0) > 0
    assert worst < 0.9 if shared else worst > 1 - 1e-6


# --- pooling


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_the_pooled_position_is_the_last_real_token(side):
    """The state holds its own position, so the pooled state says where it came from."""
    mask = torch.zeros(6, 9, dtype=torch.bool)
    for i in range(6):
        begin = {"left": 9 - (i + 1), "right": 0, "both": 2}[side]
        mask[i, begin : begin + i + 1] = True
    positions = torch.arange(9.0).expand(6, 9)[..., None]
    expected = [max(j for j in range(9) if row[j]) for row in mask.tolist()]
    assert pool_last(positions, mask)[:, 0].tolist() == expected


def test_the_head_works_in_float32_on_a_bfloat16_body(tiny_gemma):
    base = tiny.load(tiny_gemma)
    classifier = Classifier(base.body.to(torch.bfloat16), torch.ones(2, 32)).eval()
    ids = torch.arange(5, 10)[None]
    logits = classifier(ids, torch.ones_like(ids, dtype=torch.bool))
    assert logits.dtype == classifier.score.weight.dtype == torch.float32


def test_a_snapshot_restores_what_can_be_trained(tiny_gemma):
    classifier = Classifier(tiny.load(tiny_gemma).body, torch.ones(2, 32))
    assert list(classifier.trainable()) == ["score.weight"]
    snapshot = classifier.snapshot()
    with torch.no_grad():
        classifier.score.weight.mul_(3)
    assert snapshot["score.weight"].unique().tolist() == [1.0], "a snapshot is a copy"
    classifier.restore(snapshot)
    assert torch.equal(classifier.score.weight, torch.ones(2, 32))
