"""A trace counts what is held at once and what is computed, the same with data and without."""

import pytest
import torch
from torch import nn
from transformers import masking_utils

from tonetune.device.trace import BLOCK_BYTES, Trace, without_data


def test_the_peak_is_the_most_that_is_held_at_once():
    with Trace([]) as trace:
        first = torch.empty(1024)  # 4096 bytes
        second = first * 2
        view = second.view(32, 32)
        del second
        assert trace.live_bytes == 8192, "a view holds its storage"
        del view
        third = torch.empty(2048) + 1
        assert (trace.live_bytes, trace.peak_bytes) == (4096 + 8192, 4096 + 2 * 8192)
        del first, third
    assert trace.live_bytes == 0


def test_small_tensors_take_a_block():
    with Trace([]) as trace:
        tensors = [torch.empty(1) for _ in range(3)]
    assert trace.peak_bytes == 3 * BLOCK_BYTES and len(tensors) == 3


def test_what_existed_is_not_counted_even_where_a_view_of_it_is_made():
    weight = torch.empty(64, 64)
    with Trace([weight]) as trace:
        views = [weight.t(), weight[:3], weight.add_(1)]
    assert trace.peak_bytes == 0 and len(views) == 3


@pytest.mark.parametrize("requires_grad", [True, False])
def test_products_are_counted_forward_and_backward(requires_grad):
    layer = nn.Linear(30, 50, bias=False).requires_grad_(requires_grad)
    hidden = torch.randn(7, 30, requires_grad=True)
    with Trace([]) as trace:
        layer(hidden).sum().backward()
    assert trace.flops == 2 * 7 * 30 * 50 * (3 if requires_grad else 2)


def stack() -> nn.Module:
    blocks = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64)]
    return nn.Sequential(*blocks, nn.Dropout(0.1))


def test_without_data_the_same_is_counted():
    def run(model: nn.Module) -> Trace:
        hidden = torch.zeros(20, 64)
        with Trace([*model.parameters()]) as trace:
            model(hidden).sum().backward()
        return trace

    real = run(stack())
    with torch.device("meta"):
        model = stack()
    with without_data():
        dry = run(model.to_empty(device="cpu"))
    assert dry.flops == real.flops > 0
    assert dry.peak_bytes == real.peak_bytes > 20 * 256 * 4


def test_transformers_is_left_as_it_was():
    look = masking_utils.find_packed_sequence_indices

    def fail() -> None:
        with without_data():
            assert masking_utils.find_packed_sequence_indices is not look
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert masking_utils.find_packed_sequence_indices is look
    assert torch.ones(2).tolist() == [1.0, 1.0], "tensors have data again"


def test_attention_with_fewer_keys_than_queries_is_counted_with_a_key_for_each(monkeypatch):
    """As torch before 2.13 counts it, which refuses other shapes; on the CPU the operation is one of its own."""
    seen = []

    def strict(query, key, value, *rest, out_val=None, **options):
        seen.append((tuple(query), tuple(key), tuple(value)))
        return 1

    operation = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    monkeypatch.setattr("tonetune.device.trace.flop_registry", {operation: strict})
    query, key = torch.ones(2, 4, 6, 8), torch.ones(2, 1, 6, 8)
    with Trace([]) as found:
        torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)
    assert seen == [((2, 4, 6, 8),) * 3] and found.flops == 1
