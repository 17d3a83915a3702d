"""Laws of the classifier: logits depend on the text alone, and the state pooled is that of its last real token."""

import numpy as np
import pytest
import tiny
import torch

from tonetune.data.batches import TokenStore
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
