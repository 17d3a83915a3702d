"""Laws of adapters that PEFT saved by itself: PEFT's own logits, or an error that names what is not supported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from tonetune.data.batches import TokenStore
from tonetune.errors import ModelError, UsageError
from tonetune.evaluation.predict import score
from tonetune.model.peft_adapter import load_peft, read_peft_config

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT 0.21, 12/2026

CPU = torch.device("cpu")
TEXTS = [text for text, _ in tiny.emotion_rows("en", 3)] + ["今天开心", "x"]
WITH_A_CLASS = [name for name in tiny.FAMILIES if not name.startswith(("gemma3n", "gemma4"))]


def peft_model(model: Path, **settings):
    """An adapter and a head, as if trained, on transformers' classifier of three labels."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(3)
    body = AutoModelForSequenceClassification.from_pretrained(model, num_labels=3, ignore_mismatched_sizes=True)
    chosen = {"task_type": "SEQ_CLS", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], **settings}
    classifier = get_peft_model(body, LoraConfig(**chosen))
    with torch.no_grad():
        for parameter in classifier.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape) * 0.1)
    return classifier.eval()


def own_logits(classifier, tokenizer_of: Path, texts=TEXTS):
    """What PEFT's users compute: each text by itself, as the tokenizer reads it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_of)
    with torch.no_grad():
        return np.concatenate(
            [classifier(**tokenizer(text, return_tensors="pt", truncation=True)).logits.numpy() for text in texts]
        )


def loaded(directory: Path, labels=("a", "b", "c")):
    return load_peft(directory, labels=labels, device=CPU, dtype=torch.float32, gate=False)


def our_logits(found, texts=TEXTS):
    store = TokenStore(found.tokenizer.encode(texts).ids, pad_id=found.tokenizer.pad_id, device=CPU)
    return score(found.classifier, store, budget_tokens=256, call_tokens=8)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def edit(path: Path, **changes) -> None:
    document = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**document, **changes}))


@pytest.fixture(scope="module")
def of_peft(tiny_gemma, tmp_path_factory):
    """A directory as `PeftModel.save_pretrained` leaves it."""
    directory = tmp_path_factory.mktemp("peft") / "adapter"
    peft_model(tiny_gemma).save_pretrained(directory)
    return directory


@pytest.fixture
def copy(of_peft, tmp_path):
    return shutil.copytree(of_peft, tmp_path / "adapter")


def refused(directory: Path, match: str, labels=("a", "b", "c")) -> ModelError:
    with pytest.raises(ModelError, match=match) as caught:
        loaded(directory, labels)
    assert str(directory) in str(caught.value.where)
    return caught.value


# --- the same logits


@pytest.mark.parametrize("family", WITH_A_CLASS)
def test_an_adapter_of_each_family_gives_the_logits_of_peft(tiny_model, tmp_path, family):
    classifier = peft_model(tiny_model(family))
    classifier.save_pretrained(tmp_path / "adapter")
    found = loaded(tmp_path / "adapter")
    close(our_logits(found), own_logits(classifier, tiny_model(family)))
    on_towers = any("towers" in note for note in found.notes)
    assert on_towers == (family == "gemma3"), "PEFT matches the names in the vision tower too"


@pytest.mark.parametrize(
    "settings",
    [
        {"use_rslora": True},
        {"use_dora": True},
        {"target_modules": "all-linear"},
        {"target_modules": r".*layers\.1\..*(down_proj|o_proj)"},
        {"layers_to_transform": [1]},
        {"exclude_modules": ["v_proj"], "lora_dropout": 0.3, "init_lora_weights": "gaussian"},
    ],
)
def test_each_supported_setting_gives_the_logits_of_peft(tiny_gemma, tmp_path, settings):
    classifier = peft_model(tiny_gemma, **settings)
    classifier.save_pretrained(tmp_path / "adapter")
    close(our_logits(loaded(tmp_path / "adapter")), own_logits(classifier, tiny_gemma))


def test_settings_of_older_and_newer_versions_are_no_obstacle(of_peft, copy):
    """0.19 to 0.21 write the same two files; later ones add settings, which are off."""
    document = json.loads((copy / "adapter_config.json").read_text())
    for key in ("arrow_config", "lora_bias", "use_qalora", "exclude_modules", "peft_version"):
        document.pop(key, None)
    (copy / "adapter_config.json").write_text(json.dumps({**document, "of_tomorrow": None, "another": {}}))
    assert np.array_equal(our_logits(loaded(copy)), our_logits(loaded(of_peft)))


@pytest.mark.parametrize(
    "own", [{"bos": True}, {"bos": False}, {"bos": True, "eos": True}, {"bos": False, "eos": True}]
)
def test_texts_get_the_control_tokens_that_the_tokenizer_beside_the_adapter_adds(tiny_gemma, copy, own):
    for name in ("config.json", "tokenizer_config.json"):
        shutil.copy(tiny_gemma / name, copy)
    tiny.tokenizer(**own).save(str(copy / "tokenizer.json"))
    close(our_logits(loaded(copy)), own_logits(trained_like(copy, tiny_gemma), copy))


def trained_like(directory: Path, model: Path):
    """The saved adapter as PEFT loads it."""
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification

    return PeftModel.from_pretrained(
        AutoModelForSequenceClassification.from_pretrained(model, num_labels=3), directory
    ).eval()


def test_a_long_text_loses_its_end_where_the_tokenizer_has_a_limit(tiny_gemma, copy):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_gemma / name, copy)
    edit(copy / "tokenizer_config.json", model_max_length=20)
    found, long = loaded(copy), ["x " * 60]
    assert found.tokenizer.encode(long).lengths.tolist() == [20]
    close(our_logits(found, long), own_logits(trained_like(copy, tiny_gemma), copy, long))


def test_without_a_limit_of_the_tokenizer_the_model_s_own_holds(of_peft):
    assert loaded(of_peft).tokenizer.max_length == 256, "max_position_embeddings"


def test_nothing_is_put_around_a_text_but_what_the_tokenizer_adds(of_peft):
    found = loaded(of_peft)
    assert found.labels.names == ("a", "b", "c") and found.notes == ()
    assert found.tokenizer.template.source == "<bos>{text}"


# --- labels


def test_labels_are_those_beside_the_adapter_else_of_the_base_else_numbers(tiny_gemma, copy, tmp_path):
    model = shutil.copytree(tiny_gemma, tmp_path / "model")
    edit(copy / "adapter_config.json", base_model_name_or_path=str(model))
    numbered = loaded(copy, None)
    assert numbered.labels.names == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert "numbered" in numbered.notes[0]
    edit(model / "config.json", id2label={"0": "LABEL_0", "1": "LABEL_1"})
    assert loaded(copy, None).notes == numbered.notes, "these are no names, whatever their number"
    edit(model / "config.json", id2label={"2": "z", "0": "x", "1": "y"}, label2id={"x": 0, "y": 1, "z": 2})
    assert loaded(copy, None).labels.names == ("x", "y", "z")
    edit(copy / "config.json", id2label={"0": "r", "1": "s", "2": "t"})
    assert loaded(copy, None).labels.names == ("r", "s", "t")
    assert loaded(copy, ["u", "v", "w"]).labels.names == ("u", "v", "w")
    assert loaded(copy, ["u", "v", "w"]).notes == ()


def test_a_base_of_five_labels_and_an_adapter_of_three(tiny_gemma, tmp_path):
    from transformers import AutoModelForSequenceClassification

    names = dict(enumerate(("a", "b", "c", "d", "e")))
    five = AutoModelForSequenceClassification.from_pretrained(tiny_gemma, num_labels=5, id2label=names)
    five.save_pretrained(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_gemma / name, tmp_path / "model")
    classifier = peft_model(tmp_path / "model")
    classifier.save_pretrained(tmp_path / "adapter")
    with pytest.raises(ModelError, match="names 5 labels, a, b, c, d, e, and the adapter's head has 3 rows") as caught:
        loaded(tmp_path / "adapter", None)
    assert "labels" in str(caught.value.hint)
    close(our_logits(loaded(tmp_path / "adapter")), own_logits(classifier, tmp_path / "model"))


def test_labels_in_two_orders_are_refused_until_someone_says_which(tiny_gemma, copy, tmp_path):
    model = shutil.copytree(tiny_gemma, tmp_path / "model")
    edit(copy / "adapter_config.json", base_model_name_or_path=str(model))
    edit(copy / "config.json", id2label={"0": "joy", "1": "anger", "2": "fear"})
    edit(model / "config.json", id2label={"0": "anger", "1": "fear", "2": "joy"})
    refused(copy, "in the order joy, anger, fear, the base's anger, fear, joy", None)
    assert loaded(copy, ["fear", "joy", "anger"]).labels.names == ("fear", "joy", "anger")


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 2, "b": 1, "c": 0}}, "different orders"),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "rows 0, 1, 3, expected 0, 1, 2"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "repeated"),
        ({"id2label": {"0": "a", "1": "b"}}, "names 2 labels, a, b, and the adapter's head has 3 rows"),
        ({"id2label": ["a", "b", "c"]}, "not mappings"),
        ({"problem_type": "multi_label_classification"}, "multi_label_classification is not supported"),
        ({"problem_type": "regression"}, "regression is not supported"),
    ],
)
def test_a_config_that_cannot_be_right_is_refused(copy, config, match):
    edit(copy / "config.json", **config)
    refused(copy, match, None)


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c", "d"], ["a", "b", "a"], ["a", "b", " "]])
def test_given_labels_must_fit_the_head(of_peft, labels):
    with pytest.raises(UsageError, match=r"for a head of 3 rows|repeated|empty") as caught:
        loaded(of_peft, labels)
    assert caught.value.where == "labels"


# --- what is refused


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"bias": "lora_only"}, "bias"),
        ({"bias": "all"}, "bias"),
        ({"lora_bias": True}, "lora_bias"),
        ({"trainable_token_indices": [1, 2]}, "trainable_token_indices"),
        ({"layer_replication": [(0, 1), (0, 2)]}, "layer_replication"),
        ({"target_parameters": ["mlp.experts.down_proj"]}, "target_parameters"),
        ({"modules_to_save": ["score", "embed_tokens"]}, r"modules_to_save \(\['embed_tokens'\]\)"),
        ({"init_lora_weights": "pissa"}, r"init_lora_weights \(pissa\)"),
        ({"init_lora_weights": "olora"}, r"init_lora_weights \(olora\)"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"use_rslora": True, "use_dora": True}, "use_rslora with use_dora"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path, settings, named):
    from peft import LoraConfig

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"], base_model_name_or_path="x", **settings)
    config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=f"does not support: .*{named}") as caught:
        read_peft_config(tmp_path / "adapter_config.json")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"task_type": "CAUSAL_LM"}, "task_type is CAUSAL_LM, not SEQ_CLS"),
        ({"task_type": None}, "task_type is None, not SEQ_CLS"),
        ({"peft_type": "IA3"}, "peft_type is IA3, not LORA"),
        ({"feature_of_tomorrow": {"depth": 3}}, r"does not support: feature_of_tomorrow \(\{'depth': 3\}\)"),
        ({"r": "eight"}, "damaged: r is 'eight'"),
        ({"base_model_name_or_path": None}, "damaged: base_model_name_or_path is None"),
        ({"r": 5}, "tensors do not fit the base"),
    ],
)
def test_another_kind_of_adapter_is_refused(copy, changes, match):
    edit(copy / "adapter_config.json", **changes)
    refused(copy, match)


def without(copy: Path, part: str) -> None:
    path = copy / "adapter_model.safetensors"
    save_file({name: tensor for name, tensor in load_file(path).items() if part not in name}, path)


def test_an_adapter_without_its_head_is_refused(copy):
    without(copy, "score")
    assert "SEQ_CLS" in refused(copy, "holds no head").hint


def test_an_adapter_that_is_not_whole_is_refused(copy):
    without(copy, "layers.1.self_attn.q_proj.lora_B")
    refused(copy, "1 tensors do not fit the base")
    without(copy, "lora_")
    refused(copy, "changes no layer")
    (copy / "adapter_model.safetensors").write_bytes(b"1234")
    refused(copy, "cannot be read")
    (copy / "adapter_model.safetensors").unlink()
    refused(copy, r"no adapter_model\.safetensors")


def test_a_regression_is_no_classifier(copy):
    path = copy / "adapter_model.safetensors"
    tensors = load_file(path)
    tensors["base_model.model.score.weight"] = tensors["base_model.model.score.weight"][:1].clone()
    save_file(tensors, path)
    refused(copy, "one row, as for a regression", ["a"])
