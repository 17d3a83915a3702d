"""Laws of shapes without weights: full-size models have the published numbers of parameters."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
from ruamel.yaml import YAML

from tonetune.errors import ModelError
from tonetune.model.adapters import lora_layers, target_names
from tonetune.model.families import FAMILIES
from tonetune.model.shapes import body_on_meta, count_parameters

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


def adapter(body, targets, *, rank=8, variant="lora"):
    names = target_names(body, FAMILIES[body.config.model_type], targets)
    return count_parameters(body, lora_layers(body, names, rank=rank, variant=variant), num_labels=2).adapter


def rounded(number, unit, *, as_in):
    """A number in a unit, with as many decimals as a published one has."""
    return f"{number / unit:.{len(as_in.partition('.')[2])}f}"


def test_there_is_every_model_and_every_gemma_family():
    assert len(MODELS) == 17
    assert {row["config"]["model_type"] for row in MODELS.values()} == {n for n in FAMILIES if n.startswith("gemma")}


@pytest.mark.parametrize("name", MODELS)
def test_a_full_size_model_has_the_published_numbers_of_parameters(name):
    body = body_on_meta(config_of(name))
    assert {p.device.type for p in body.parameters()} == {"meta"}
    tables = sum(p.numel() for name, p in body.named_parameters() if name.startswith("embed_tokens"))
    found = {
        "text_b": (count_parameters(body, [], num_labels=2).total, 1e9),
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
    assert adapter(body_on_meta(config_of(name)), targets, rank=rank) == parameters


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
    body = body_on_meta(config_of(name))
    family = FAMILIES[body.config.model_type]
    assert len(target_names(body, family, ["k_proj"])) == own_keys
    assert len(target_names(body, family, ["v_proj"])) == own_values
    assert len(target_names(body, family, ["q_proj"])) == body.config.num_hidden_layers


# --- the same as with weights


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_shapes_without_weights_are_those_with_weights(tiny_model, family, tmp_path):
    """From a directory that holds nothing but config.json, in each layout."""
    base = tiny.load(tiny_model(family))
    config = (tiny_model(family) / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    for source in (tmp_path, json.loads(config)):
        body = body_on_meta(source)
        assert type(body) is type(base.body)
        shapes = {name: p.shape for name, p in body.named_parameters()}
        assert shapes == {name: p.shape for name, p in base.body.named_parameters()}


def test_what_is_not_supported_is_refused(tmp_path):
    with pytest.raises(ModelError, match="'bert' is not supported"):
        body_on_meta({"model_type": "bert"})
    with pytest.raises(ModelError, match=r"config\.json cannot be used"):
        body_on_meta({"model_type": "gemma3_text", "num_hidden_layers": "many"})
    with pytest.raises(ModelError, match=r"config\.json cannot be read: No such file"):
        body_on_meta(tmp_path)
