"""The table of families agrees with transformers and with the layers that real models have."""

import pytest
import tiny
import transformers

from tonetune.errors import ModelError
from tonetune.model.families import FAMILIES, family_of


def test_the_table_and_the_tiny_models_name_the_same_families():
    assert set(FAMILIES) == set(tiny.FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_classifier_class_is_the_one_transformers_uses(name):
    config = transformers.AutoConfig.for_model(name)
    model = transformers.AutoModelForSequenceClassification._model_mapping[type(config)]
    assert FAMILIES[name].classifier == model.__name__


@pytest.mark.parametrize("model_type", ["gemma3", "gemma4", "bert", "vaultgemma", None])
def test_another_family_is_refused_with_those_that_are_known(model_type):
    with pytest.raises(ModelError, match="gemma3_text") as caught:
        family_of({"model_type": model_type} if model_type else {}, where="DIR")
    assert caught.value.where == "DIR/config.json" and caught.value.hint
