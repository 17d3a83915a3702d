"""P4 passes torch's fused attention and catches one that ignores the mask, looks ahead, or has wrong gradients."""

import itertools

import pytest
import torch

from tonetune.device.probes import attention
from tonetune.device.probes.attention import Case, cases, exact_attention, fused_attention, masks, probe_attention


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.1


def eager(query, key, value, mask):
    tokens = query.shape[2]
    causal = torch.ones(len(query), tokens, tokens, dtype=torch.bool).tril()
    return exact_attention(query, key, value, causal if mask is None else mask)


def test_fused_attention_passes_and_its_kernel_is_named():
    found = probe_attention("cpu", thorough=False)
    assert found.passed and found.value < 1.0
    assert "scaled_dot_product" in found.detail
    assert set(found.facts) == {"float32_used", "bfloat16_used"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v, mask: fused_attention(q, k, v, None),
        lambda q, k, v, mask: eager(q, k, v, torch.ones_like(q[:, 0, :, :1] @ k[:, 0, :, :1].mT, dtype=torch.bool)),
        lambda q, k, v, mask: eager(q, WrongGradient.apply(k), v, mask),
        lambda q, k, v, mask: eager(q, k, v, mask) * 1.03,
        lambda q, k, v, mask: eager(q, k, v.reshape(v.shape[0], v.shape[2], v.shape[1], -1).transpose(1, 2), mask),
        lambda q, k, v, mask: eager(q / 0, k, v, mask),
    ],
    ids=["ignores the mask", "looks ahead", "gradient of keys", "scaled", "layout of values", "not finite"],
)
def test_wrong_attention_is_caught(wrong):
    torch.backends.cuda.enable_cudnn_sdp(True)
    found = probe_attention("cpu", thorough=False, attention=wrong)
    assert not found.passed and found.value > 1.0
    assert not torch.backends.cuda.cudnn_sdp_enabled(), "as in training"


def test_attention_that_is_wrong_for_long_texts_only_is_caught_there(monkeypatch):
    monkeypatch.setattr(attention, "cases", lambda *, thorough: cases(thorough=False))
    found = probe_attention(
        "cpu", thorough=False, attention=lambda q, *rest: fused_attention(q * (1 + (q.shape[2] > 100)), *rest)
    )
    assert not found.passed and "129 tokens" in found.detail


def test_the_thorough_cases_hold_the_widths_and_lengths_of_gemma():
    held = cases(thorough=True)
    assert {c.width for c in held} >= {256, 512}
    assert {c.tokens for c in held} >= {16, 511, 513, 1024}
    assert {c.mask for c in held} == {"causal", "left", "right", "window"}


@pytest.mark.parametrize("mask", ["causal", "left", "right", "window"])
def test_masks_say_what_their_names_say(monkeypatch, mask):
    monkeypatch.setattr(attention, "WINDOW", 5)
    real_BT, look_BTT = masks(Case(torch.float32, 8, 12, mask))
    short = {"left": [*[False] * 4, *[True] * 8], "right": [*[True] * 8, *[False] * 4]}
    assert real_BT.tolist() == [[True] * 12, short.get(mask, [True] * 12)]
    for text, query, key in itertools.product(range(2), range(12), range(12)):
        seen = real_BT[text, query] and real_BT[text, key] and key <= query
        assert look_BTT[text, query, key] == (seen and (mask != "window" or query - key < 5))
