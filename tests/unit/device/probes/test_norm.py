"""P2 passes Gemma's norm and catches one that overflows, one that forgets the offset, one that clamps."""

import pytest
import torch

from tonetune.device.probes.norm import EPSILON, gemma_norm, probe_norm


def in_format(hidden, weight):
    """Squares in the input's own format: 300² is more than float16 holds."""
    return hidden * torch.rsqrt(hidden.square().mean(dim=-1, keepdim=True) + EPSILON) * (1 + weight)


def test_the_norm_of_transformers_passes():
    found = probe_norm("cpu", thorough=False)
    assert found.passed and found.value < 1.0


@pytest.mark.parametrize(
    ("norm", "where"),
    [
        (in_format, "float16"),
        (lambda x, w: gemma_norm(x, w - 1), "at inputs"),
        (lambda x, w: gemma_norm(x.clamp(-100, 100), w), "at inputs around 10000"),
        (lambda x, w: torch.nn.functional.rms_norm(x, w.shape, 1 + w, 1e-3), "float32 at inputs around 0.0001"),
    ],
    ids=["overflows", "no offset", "clamps", "other epsilon"],
)
def test_a_wrong_norm_is_caught(norm, where):
    found = probe_norm("cpu", thorough=False, norm=norm)
    assert not found.passed and where in found.detail
