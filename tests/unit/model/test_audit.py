"""Laws of the audit: every decoder layer is accounted for, counts follow from shapes, what is wrong is refused."""

import dataclasses
import json
import re

import pytest
import tiny
import torch
from torch import nn

from tonetune.errors import ModelError
from tonetune.model import adapters
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.audit import audit
from tonetune.model.classifier import Classifier

ABSENT = {
    "gemma3n_text": {2: ("k_proj", "v_proj"), 3: ("k_proj", "v_proj")},
    "gemma4": {2: ("k_proj", "v_proj"), 3: ("k_proj", "v_proj")},
    "gemma4_moe": {1: ("v_proj",), 3: ("v_proj",)},
}
"""Linear layers that decoder layers of tests/tiny.py lack: keys and values of an earlier layer, or keys as values."""


def adapted(directory, *, targets="attention", variant="lora"):
    base = tiny.load(directory)
    classifier = Classifier(base.body, torch.zeros(3, base.hidden))
    names = target_names(base.body, base.family, targets)
    layers = inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.0, variant=variant)
    return classifier, base.family, layers


def refused(*args, match, **kwargs):
    with pytest.raises(ModelError, match=match) as caught:
        audit(*args, **kwargs)
    assert caught.value.where
    return caught.value


# --- what it says


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_counts_are_those_of_the_model(tiny_model, family):
    classifier, facts, layers = adapted(tiny_model(family), variant="dora")
    document = json.loads(json.dumps(audit(classifier, facts, layers, targets="attention")))
    assert [row["name"] for row in document["layers"]] == [layer.name for layer in layers]
    assert document["adapter"] == sum(row["parameters"] for row in document["layers"])
    assert document["head"] == 3 * 32
    assert document["trainable"] == sum(p.numel() for p in classifier.parameters() if p.requires_grad)
    assert document["total"] == sum(p.numel() for p in tiny.load(tiny_model(family)).body.parameters())
    assert document["adapter"] == sum(kind["parameters"] * len(kind["layers"]) for kind in document["kinds"])


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_decoder_layer_is_of_one_kind_and_odd_ones_are_explained(tiny_model, family):
    """What is absent is read from the weights on disk, not from the modules that the audit looks at."""
    classifier, facts, layers = adapted(tiny_model(family), targets="all-linear")
    kinds = audit(classifier, facts, layers, targets="all-linear")["kinds"]
    number_of = {number: kind for kind in kinds for number in kind["layers"]}
    assert sorted(number for kind in kinds for number in kind["layers"]) == list(range(len(number_of)))
    assert len(number_of) == classifier.model.config.num_hidden_layers
    for number, kind in number_of.items():
        absent = ABSENT.get(family, {}).get(number, ())
        names = {layer["name"] for layer in kind["adapted"]}
        assert names == {name.rpartition(".")[2] for name in facts.linear} - set(absent)
        reasons = [remark for remark in kind["remarks"] if remark.startswith("no ")]
        assert len(reasons) == bool(absent)
        assert all(name in reason for reason in reasons for name in absent)
        experts = [remark for remark in kind["remarks"] if remark.startswith("experts")]
        assert experts == (
            ["experts: 3,072 parameters in 3-D tensors are not adapted"] if family == "gemma4_moe" else []
        )  # 4 experts of 3 matrices of 8 · 32


def test_shared_keys_are_told_from_keys_as_values(tiny_model):
    for family, reason in (
        ("gemma4", "keys and values of an earlier layer"),
        ("gemma4_moe", "its values are its keys"),
    ):
        kinds = audit(*adapted(tiny_model(family)), targets="attention")["kinds"]
        assert any(reason in remark for kind in kinds for remark in kind["remarks"])


def test_an_absence_without_a_known_reason_is_named(tiny_gemma):
    classifier, family, layers = adapted(tiny_gemma, targets=["q_proj"])
    classifier.model.layers[1].self_attn.o_proj = nn.Identity()
    del classifier.model.layers[1].mlp.up_proj
    kinds = audit(classifier, family, layers, targets=["q_proj"])["kinds"]
    assert [kind["remarks"] for kind in kinds] == [[], ["no up_proj"]]


# --- a layer without an adapter


@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_a_set_of_targets_that_leaves_a_layer_bare_is_refused(tiny_model, targets):
    """As it would be with a table of names that does not know layers without keys and values."""
    base = tiny.load(tiny_model("gemma4"))
    family = dataclasses.replace(base.family, attention=("self_attn.v_proj",), linear=("self_attn.v_proj",))
    classifier = Classifier(base.body, torch.zeros(3, base.hidden))
    names = target_names(base.body, family, targets)
    layers = inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.0, variant="lora")
    error = refused(classifier, family, layers, targets=targets, match="without an adapted linear layer: 2, 3\n")
    assert error.where == f"lora.targets: {targets}" and error.hint


@pytest.mark.parametrize("targets", [["v_proj"], ["self_attn.v_proj", "per_layer_model_projection"]])
def test_a_list_that_leaves_a_layer_bare_is_said(tiny_model, targets):
    classifier, family, layers = adapted(tiny_model("gemma4"), targets=targets)
    kinds = audit(classifier, family, layers, targets=targets)["kinds"]
    bare = {number for kind in kinds if not kind["adapted"] for number in kind["layers"]}
    assert bare == {2, 3}
    assert all("names none of its linear layers" in kind["remarks"][0] for kind in kinds if not kind["adapted"])
    outside = [kind for kind in kinds if not kind["layers"]]
    assert [layer["name"] for kind in outside for layer in kind["adapted"]] == targets[1:]


# --- what is refused


def test_a_frozen_head_is_refused(tiny_gemma):
    classifier, family, layers = adapted(tiny_gemma)
    classifier.score.requires_grad_(False)
    refused(classifier, family, layers, targets="attention", match=r"the head, score\.weight, is frozen")


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.self_attn.q_proj.base_layer.weight"])
def test_a_base_that_would_be_trained_is_refused(tiny_gemma, name):
    classifier, family, layers = adapted(tiny_gemma)
    classifier.get_parameter(name).requires_grad_(True)
    match = "another number of trainable" if "q_proj" in name else "1 parameters of the base are not frozen"
    assert (
        name.partition(".base_layer")[0] in refused(classifier, family, layers, targets="attention", match=match).what
    )


def test_an_adapter_on_a_layer_that_nobody_named_is_refused(tiny_gemma):
    classifier, family, layers = adapted(tiny_gemma)
    match = re.escape("2 parameters of the base are not frozen: model.layers.0.self_attn.q_proj.lora_A")
    refused(classifier, family, layers[1:], targets=["v_proj"], match=match)


def test_parameters_that_the_shapes_do_not_call_for_are_refused(tiny_gemma, monkeypatch):
    """PEFT is made to do something else than was asked of it."""
    plain = adapters.peft_config
    monkeypatch.setattr(adapters, "peft_config", lambda names, **asked: plain(names, **{**asked, "rank": 5}))
    error = refused(*adapted(tiny_gemma), targets="attention", match="6 adapters have another number")
    assert "q_proj has 320, and its shape calls for 256" in error.what and "peft" in error.hint


@pytest.mark.parametrize("frozen", ["lora_A", "lora_B"])
def test_an_adapter_that_is_half_frozen_is_refused(tiny_gemma, frozen):
    classifier, family, layers = adapted(tiny_gemma)
    name = next(name for name in classifier.trainable() if frozen in name)
    classifier.get_parameter(name).requires_grad_(False)
    refused(classifier, family, layers, targets="attention", match="1 adapters have another number")
