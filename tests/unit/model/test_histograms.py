"""Laws of the weight histograms: every weight is counted, in the bin it is in, and the norms are those of numpy."""

import numpy as np
import pytest
import torch

from tonetune.model.histograms import BINS, weight_histograms

NAMES = ("model.layers.0.q.lora_A.default.weight", "model.layers.1.q.lora_A.default.weight", "score.weight")


def snapshots():
    rng = torch.Generator().manual_seed(1)
    before = {name: torch.randn(4, 30, generator=rng) for name in NAMES}
    return before, {name: weight + 0.3 for name, weight in before.items()}


def test_every_weight_is_counted_as_numpy_counts():
    before, after = snapshots()
    found = weight_histograms(before, after)
    assert list(found) == ["A", "head"]
    for kind, names in (("A", NAMES[:2]), ("head", NAMES[2:])):
        part = found[kind]
        assert len(part["edges"]) == BINS + 1
        for moment, tensors in (("before", before), ("after", after)):
            values = np.concatenate([tensors[name].numpy().ravel() for name in names])
            assert part[moment] == np.histogram(values, np.float32(part["edges"]))[0].tolist()
            assert part["norm"][moment] == pytest.approx(np.linalg.norm(values), rel=1e-5)
        assert part["norm"]["change"] == pytest.approx(0.3 * np.sqrt(120 * len(names)), rel=1e-4)


def test_weights_that_are_all_zero_have_a_histogram():
    zero = {"x.lora_B.default.weight": torch.zeros(3, 2)}
    (part,) = weight_histograms(zero, zero).values()
    assert part["before"][BINS // 2] == 6 and part["norm"] == {"before": 0.0, "after": 0.0, "change": 0.0}
