"""The speed of a product is that of a product."""

import time

import torch

from tonetune.device import speed


def test_a_slower_product_has_a_lower_speed(monkeypatch):
    fast = speed.product_flops_per_s(torch.float32, "cpu")
    assert 1e7 < fast < 1e15
    plain = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *args: (time.sleep(0.05), plain(*args))[1])
    rows, inner, outer = speed.SMALL_SHAPE_NKM
    assert speed.product_flops_per_s(torch.float32, "cpu") <= 2 * rows * inner * outer / 0.05
