"""A blueprint has the parameters of the model that its config describes, for every family, and takes no memory."""

import pytest
import tiny
import torch

from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.blueprint import Blueprint
from tonetune.model.classifier import Classifier
from tonetune.model.loading import read_text_config
from tonetune.model.source import find_base


def blueprint_of(directory, **changes):
    base = tiny.load(directory)
    values = {"targets": "attention", "rank": 4, "alpha": 8.0, "dropout": 0.0, "variant": "lora", "num_labels": 3}
    config = read_text_config(find_base(str(directory), whole=False))
    kernel = base.family.kernel
    return Blueprint(config, base.family, torch.float32, kernel, **{**values, **changes}), base


@pytest.mark.parametrize(
    ("family", "targets"), [*((name, "attention") for name in tiny.FAMILIES), ("gemma4", "all-linear")]
)
def test_it_has_the_parameters_of_the_model_itself(tiny_model, family, targets):
    blueprint, base = blueprint_of(tiny_model(family), targets=targets)
    real = Classifier(base.body, torch.zeros(3, base.hidden))
    names = target_names(base.body, base.family, targets)
    inject_lora(real, names, rank=4, alpha=8.0, dropout=0.0, variant="lora")
    made = blueprint.build("meta")
    assert {n: p.shape for n, p in made.named_parameters()} == {n: p.shape for n, p in real.named_parameters()}
    assert made.trainable().keys() == real.trainable().keys()
    assert all(p.device.type == "meta" for p in made.parameters()) and made.training


def test_it_can_be_made_and_does_not_change_the_config(tiny_gemma):
    blueprint, _ = blueprint_of(tiny_gemma)
    before = blueprint.config.to_dict()
    classifier = blueprint.build("cpu")
    ids_BT = torch.ones(2, 5, dtype=torch.long)
    assert classifier(ids_BT, ids_BT.bool()).shape == (2, 3)
    assert blueprint.config.to_dict() == before


@pytest.mark.parametrize("variant", ["dora", "loraplus", "pissa", "rslora"])
def test_every_variant_has_its_shapes(tiny_gemma, variant):
    blueprint, base = blueprint_of(tiny_gemma, variant=variant)
    real = Classifier(base.body, torch.zeros(3, base.hidden))
    names = target_names(base.body, base.family, "attention")
    inject_lora(real, names, rank=4, alpha=8.0, dropout=0.0, variant=variant)
    shapes = {n: p.shape for n, p in blueprint.build("meta").trainable().items()}
    assert shapes == {n: p.shape for n, p in real.trainable().items()}


@pytest.mark.parametrize(("kind", "width"), [("none", 4.0), ("8bit", 1.0), ("4bit", 0.5)])
def test_packed_layers_take_their_bits_and_scales(tmp_path, kind, width):
    """Layers as wide as a block, so that all of a layer's projections can be packed."""
    directory = tiny.write_model(tmp_path, "gemma3_text", hidden_size=64, head_dim=64, intermediate_size=128)
    blueprint, _ = blueprint_of(directory, quantization=kind)
    classifier = blueprint.build("meta")
    stored, largest = blueprint.stored_bytes(classifier)
    linear = [
        p for n, p in classifier.model.named_parameters() if p.ndim == 2 and "lora_" not in n and "embed" not in n
    ]
    others = sum(p.numel() for p in classifier.parameters() if not p.requires_grad) - sum(p.numel() for p in linear)
    buffers = sum(b.numel() * b.element_size() for b in classifier.buffers())
    numbers = sum(p.numel() for p in linear)
    scales = {"none": 0, "8bit": 4 * sum(len(p) for p in linear), "4bit": 4 * numbers // 64}[kind]
    assert stored == 4 * others + buffers + int(width * numbers) + scales
    assert largest == (0 if kind == "none" else 4 * 128 * 64)
