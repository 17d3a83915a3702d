"""The table of families agrees with transformers' own classes, fact by fact."""

import pytest
import tiny
import torch
import transformers

from tonetune.errors import ConfigError, ModelError
from tonetune.model.families import BY_MODEL_TYPE, FAMILIES, RELATIVES, check_kernel, family_of, layout_of


def test_there_is_a_tiny_model_of_every_family():
    assert {BY_MODEL_TYPE[model_type].name for model_type, _ in tiny.SHAPES.values()} == set(FAMILIES)


@pytest.mark.parametrize("model_type", BY_MODEL_TYPE)
def test_the_classifier_is_transformers_own_class_where_there_is_one(model_type):
    config = transformers.AutoConfig.for_model(model_type)
    mapping = transformers.AutoModelForSequenceClassification._model_mapping
    expected = mapping[type(config)].__name__ if type(config) in mapping else None
    assert layout_of({"model_type": model_type}, where="DIR").classifier == expected


@pytest.mark.parametrize("model_type", BY_MODEL_TYPE)
def test_the_name_is_the_model_type_of_the_text_model(model_type):
    config = transformers.AutoConfig.for_model(model_type)
    assert config.get_text_config().model_type == BY_MODEL_TYPE[model_type].name


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def body(request, tiny_model):
    return tiny.load(tiny_model(request.param))


def test_the_norm_offset_is_that_of_the_norms(body):
    """A norm whose stored weight is zero gives its input times the offset, for an input of unit size."""
    norm = body.body.norm
    weight = norm.weight.clone()
    unit = torch.ones(1, 32)
    norm.weight.zero_()
    assert norm(unit).mean().item() == pytest.approx(body.family.norm_offset, abs=1e-3)
    norm.weight.copy_(weight)


def test_soft_caps_shared_layers_and_embeddings_are_those_of_the_config(body):
    config, family = body.body.config, body.family
    assert family.attention_softcap == (getattr(config, "attn_logit_softcapping", None) is not None)
    if getattr(config, "final_logit_softcapping", None) is not None:
        assert family.logit_softcap
    assert family.per_layer_embeddings == hasattr(config, "hidden_size_per_layer_input")
    assert family.shares_kv == hasattr(config, "num_kv_shared_layers")


def test_layers_and_targets_are_in_the_body(body):
    layers = body.body.get_submodule(body.family.layers)
    assert len(layers) == body.body.config.num_hidden_layers
    linear = {name for name, module in layers[0].named_modules() if isinstance(module, torch.nn.Linear)}
    assert set(body.family.attention) <= set(body.family.linear) <= linear


@pytest.mark.parametrize("model_type", ["bert", "gemma5", None])
def test_another_model_is_refused_with_those_that_are_known(model_type):
    with pytest.raises(ModelError, match="gemma3_text") as caught:
        family_of({"model_type": model_type} if model_type else {}, where="DIR")
    assert caught.value.where == "DIR/config.json" and caught.value.hint


@pytest.mark.parametrize("model_type", RELATIVES)
def test_a_relative_is_refused_by_name_with_the_reason(model_type):
    with pytest.raises(ModelError, match=f"'{model_type}' is not supported: it") as caught:
        family_of({"model_type": model_type}, where="DIR")
    assert RELATIVES[model_type] in caught.value.what


def test_a_kernel_that_leaves_something_out_is_refused():
    with pytest.raises(ConfigError, match=r"sdpa is wrong for Gemma 2: .* soft cap"):
        check_kernel(FAMILIES["gemma2"], "sdpa")
    for kernel in ("auto", "eager", "sdpa"):
        check_kernel(FAMILIES["gemma4_text"], kernel)
