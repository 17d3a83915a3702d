"""P1 passes right products and catches wrong ones: scaled, of the wrong sign, not finite, flushed, coarse."""

import pytest
import torch

from tonetune.device.probes.gemm import SHAPES_NKM, measure_product, probe_gemm

linear = torch.nn.functional.linear


def only(dtype, change):
    """A product that is wrong in one number format."""
    return lambda left, right: change(linear(left, right)) if left.dtype == dtype else linear(left, right)


def test_right_products_pass():
    found = probe_gemm("cpu", thorough=False)
    assert found.passed and found.value < found.limit == 1.0
    assert found.facts["bfloat16_flops_per_s"] > 1e6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "change",
    [
        lambda out: out * 1.03,
        lambda out: -out,
        lambda out: out / 0.0,
        lambda out: torch.where(out > 50, torch.nan, out),
        lambda out: out[:, torch.randperm(out.shape[1])],
    ],
    ids=["scaled", "negated", "infinite", "nan", "shuffled"],
)
def test_a_wrong_product_is_caught_and_named(monkeypatch, dtype, change):
    monkeypatch.setattr("tonetune.device.probes.gemm.product_flops_per_s", lambda dtype, device: 1e12)
    found = probe_gemm("cpu", thorough=False, product=only(dtype, change))
    assert not found.passed and found.value > 1.0
    names = [str(d).removeprefix("torch.") for d in (torch.float32, torch.bfloat16, torch.float16)]
    assert [name for name in names if found.facts[f"{name}_used"] > 1.0] == [str(dtype).removeprefix("torch.")]


def test_a_small_error_of_scale_is_caught_though_rounding_hides_it():
    found = measure_product(
        torch.bfloat16, "cpu", SHAPES_NKM, lambda a, b: (linear(a.float(), b.float()) * 1.002).bfloat16()
    )
    assert found.error < 4 * 1.7e-3 and found.used(torch.bfloat16) > 1.0


def test_a_product_that_flushes_small_numbers_is_told_of(monkeypatch):
    monkeypatch.setattr("tonetune.device.probes.gemm.product_flops_per_s", lambda dtype, device: 1e12)

    def flushing(left, right):
        tiny = left.abs() < torch.finfo(torch.float16).tiny
        return linear(torch.where(tiny, 0, left), right) if left.dtype == torch.float16 else linear(left, right)

    found = probe_gemm("cpu", thorough=False, product=flushing)
    assert found.facts["float16_keeps_subnormals"] == 0.0 and "become zero" in found.detail
