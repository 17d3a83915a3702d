"""Laws of full-size shapes: without weights, every Gemma has the published numbers of parameters."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from ruamel.yaml import YAML
from transformers import AutoModel

from tonetune.model.adapters import inject_lora, lora_layers, target_names
from tonetune.model.audit import audit
from tonetune.model.classifier import Classifier
from tonetune.model.families import FAMILIES, text_config

MODELS: dict[str, Any] = YAML(typ="safe").load(Path(tiny.__file__).with_name("full_sizes.yaml"))
FOUR = ("q_proj", "k_proj", "v_proj", "o_proj")


def config_of(name):
    """The config.json of a full-size model, as far as the file of sizes says."""
    values = dict(MODELS[name]["config"])
    period = values.pop("period", None)
    if period:
        kinds = ["sliding_attention"] * (period - 1) + ["full_attention"]
        values["layer_types"] = [kinds[i % period] for i in range(values["num_hidden_layers"])]
    return values


def body_of(name):
    """The text model on the meta device."""
    with torch.device("meta"):
        return AutoModel.from_config(text_config(config_of(name), where=name))


@cache
def shared_body_of(name):
    """The same one for every test that leaves it as it is."""
    return body_of(name)


def family_of(body):
    return FAMILIES[body.config.model_type]


def adapter(body, targets, *, rank=8):
    layers = lora_layers(body, target_names(body, family_of(body), targets), rank=rank, variant="lora")
    return sum(layer.parameters for layer in layers)


def rounded(number, unit, *, as_in):
    """A number in a unit, with as many decimals as a published one has."""
    return f"{number / unit:.{len(as_in.partition('.')[2])}f}"


def test_there_is_every_model_and_every_gemma_family():
    assert len(MODELS) == 17
    assert {row["config"]["model_type"] for row in MODELS.values()} == {n for n in FAMILIES if n.startswith("gemma")}


@pytest.mark.parametrize("name", MODELS)
def test_a_full_size_model_has_the_published_numbers_of_parameters(name):
    body = shared_body_of(name)
    tables = sum(p.numel() for name, p in body.named_parameters() if name.startswith("embed_tokens"))
    found = {
        "text_b": (sum(p.numel() for p in body.parameters()), 1e9),
        "embeddings_b": (tables, 1e9),
        "attention_m": (adapter(body, FOUR), 1e6),
        "all_linear_m": (adapter(body, "all-linear"), 1e6),
    }
    published = MODELS[name]["counts"]
    assert {key: rounded(*found[key], as_in=text) for key, text in published.items()} == published


@pytest.mark.parametrize(
    ("name", "targets", "rank", "parameters"),
    [
        ("gemma-2-2b", "attention", 8, 2_502_656),
        ("gemma-2-2b", ["q_proj", "v_proj"], 8, 1_597_440),
        ("gemma-2b", ["q_proj", "v_proj"], 8, 921_600),
        ("gemma-2b", FOUR, 64, 14_745_600),
        ("gemma-4-E2B", ["q_proj", "v_proj"], 8, 1_339_392),
        ("gemma-4-E4B", ["q_proj", "v_proj"], 8, 2_269_184),
    ],
)
def test_adapters_of_full_size_models_to_the_last_parameter(name, targets, rank, parameters):
    assert adapter(shared_body_of(name), targets, rank=rank) == parameters


@pytest.mark.parametrize(
    ("name", "own_keys", "own_values"),
    [
        ("gemma-4-E2B", 15, 15),
        ("gemma-4-E4B", 24, 24),
        ("gemma-4-12B", 48, 40),
        ("gemma-4-26B-A4B", 30, 25),
        ("gemma-3n-E2B", 20, 20),
        ("gemma-3n-E4B", 20, 20),
    ],
)
def test_layers_that_share_keys_and_values_have_none(name, own_keys, own_values):
    body = shared_body_of(name)
    family = family_of(body)
    assert len(target_names(body, family, ["k_proj"])) == own_keys
    assert len(target_names(body, family, ["v_proj"])) == own_values
    assert len(target_names(body, family, ["q_proj"])) == body.config.num_hidden_layers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma-4-E2B", "gemma-4-26B-A4B", "gemma-3n-E4B"])
def test_peft_makes_what_the_shapes_call_for(name):
    """The audit compares them; its rows add up to all of them, and every decoder layer is of some kind."""
    body = body_of(name)
    family = family_of(body)
    with torch.device("meta"):
        classifier = Classifier(body.requires_grad_(False), torch.zeros(2, body.config.hidden_size))
        names = target_names(body, family, "all-linear")
        layers = inject_lora(classifier, names, rank=8, alpha=16.0, dropout=0.0, variant="lora")
    document = audit(classifier, family, layers, targets="all-linear")
    assert document["adapter"] == adapter(shared_body_of(name), "all-linear")
    assert document["adapter"] == sum(kind["parameters"] * len(kind["layers"]) for kind in document["kinds"])
    assert sum(len(kind["layers"]) for kind in document["kinds"]) == body.config.num_hidden_layers
    assert len(document["kinds"]) == {"gemma-4-E2B": 4, "gemma-4-26B-A4B": 2, "gemma-3n-E4B": 2}[name]
