"""benchmarks/packed_steps.py: a batch laid end to end has the gradient of the padded one."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from torch import nn

from tonetune.data.batches import TokenStore
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier
from tonetune.model.families import family_of
from tonetune.training.gradient import accumulate

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "packed_steps.py"
spec = importlib.util.spec_from_file_location("packed_steps", SCRIPT)
steps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(steps)
LENGTHS = (3, 17, 1, 9, 12, 5)


def made(family, device="cpu", dtype=torch.float32):
    """A random classifier with an adapter that is no longer zero, and a store of texts longer than a window."""
    from transformers import AutoModel

    torch.manual_seed(0)
    config = tiny.config(family).get_text_config()
    kind = family_of(tiny.config(family).to_dict(), where=family)
    with torch.device(device):
        body = AutoModel.from_config(config, attn_implementation=kind.kernel, dtype=dtype).requires_grad_(False).eval()
    classifier = Classifier(body, torch.randn(3, config.hidden_size))
    inject_lora(classifier, target_names(body, kind, "attention"), rank=4, alpha=8.0, dropout=0.0, variant="lora")
    for name, parameter in classifier.named_parameters():
        if ".lora_B." in name:
            nn.init.normal_(parameter, std=0.05)
    rng = np.random.default_rng(0)
    ids = [rng.integers(10, 2000, size=n).astype(np.int32) for n in LENGTHS]
    return classifier, TokenStore(ids, pad_id=0, device=torch.device(device)), torch.arange(6, device=device) % 3


def gradient_of(classifier):
    found = torch.cat([p.grad.flatten().float() for p in classifier.trainable().values()])
    classifier.zero_grad(set_to_none=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in tiny.FAMILIES if name not in tiny.MULTIMODAL])
@pytest.mark.parametrize("budget", [20])
def test_a_pack_has_the_gradient_of_the_padded_batch(family, budget):
    classifier, store, gold_N = made(family)
    rows = np.array([4, 1, 0, 5, 2])
    expected_loss = accumulate(classifier, store, gold_N, rows, budget_tokens=1000, call_tokens=0)
    expected = gradient_of(classifier)
    packed = steps.PackedGradient(classifier, store, steps.cross_entropy(gold_N), batch=6, graphs=False, compiled=False)
    loss = packed(rows, budget_tokens=budget)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient_of(classifier), expected, rtol=1e-3, atol=3e-4)
    assert classifier.model.config._attn_implementation != "tonetune_packed", "what it was before"


def test_texts_without_room_are_refused():
    _, store, _ = made("gemma3_text")
    with pytest.raises(ValueError, match="no room"):
        steps.pack(store, np.array([0, 1]), steps.PackShape(num_tokens=20, num_texts=2, longest=32))
    with pytest.raises(ValueError, match="no room"):
        steps.pack(store, np.array([1]), steps.PackShape(num_tokens=64, num_texts=2, longest=17))


def test_texts_are_cut_into_packs_in_order():
    cut = steps.packs(np.array([5, 5, 30, 5]), 12)
    assert [part.tolist() for part in cut] == [[0, 1], [2], [3]]
