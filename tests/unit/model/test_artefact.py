"""Laws of the saved classifier: it comes back the same anywhere, and anything changed in it is refused."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from tonetune.data.batches import TokenStore
from tonetune.data.cleaning import STANDARD_RULES
from tonetune.data.template import Template
from tonetune.errors import ConfigError, ModelError
from tonetune.evaluation.predict import score
from tonetune.labels import LabelSet
from tonetune.model.adapters import inject_lora, settle, target_names
from tonetune.model.artefact import Lora, Manifest, fingerprint, load_artefact, save_artefact, text_tokenizer
from tonetune.model.classifier import Classifier
from tonetune.model.source import find_base

CPU = torch.device("cpu")
LABELS = LabelSet(("anger", "joy", "sadness"))
TEXTS = [text for text, _ in tiny.emotion_rows("en", 5)] + ["<bos> 今天开心", "x " * 60]


WITH_A_CLASS = [name for name in tiny.FAMILIES if not name.startswith(("gemma3n", "gemma4"))]
"""Shapes that transformers has a classifier for."""


def trained(base, *, variant="lora", targets="attention"):
    """A classifier whose adapter and head are as if training had moved them."""
    rng = torch.Generator().manual_seed(5)
    classifier = Classifier(base.body, torch.randn(3, base.hidden, generator=rng))
    names = target_names(base.body, base.family, targets)
    inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.1, variant=variant)
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    rank, alpha, form = settle(classifier, rank=4, alpha=8.0, variant=variant)
    return classifier, Lora(rank, alpha, 0.1, form, tuple(names))


def saved(model: Path, directory: Path, *, variant="lora", targets="attention"):
    """Save a trained classifier of the model; its logits on TEXTS."""
    base = tiny.load(model)
    classifier, lora = trained(base, variant=variant, targets=targets)
    manifest = Manifest(
        base=str(model),
        revision=None,
        base_fingerprint=fingerprint(base.source),
        task="single-label",
        labels=LABELS.names,
        label_sha256=LABELS.hash,
        language="en",
        template="{text}\nSentiment:",
        words=("angry", "happy", "sad"),
        max_length=40,
        cleaning=STANDARD_RULES,
        lora=lora,
        attention=base.family.kernel,
        dtype="float32",
        load_gate="off",
        temperature=1.5,
    )
    tokenizer = text_tokenizer(base, template=Template.parse(manifest.template), max_length=40)
    save_artefact(directory, classifier.snapshot(), base, tokenizer, manifest)
    return logits(classifier, tokenizer, base.pad_id), manifest


def logits(classifier, tokenizer, pad_id):
    store = TokenStore(tokenizer.encode(TEXTS).ids, pad_id=pad_id, device=CPU)
    return score(classifier, store, budget_tokens=128, call_tokens=8)


def loaded_logits(directory: Path):
    loaded = load_artefact(directory, device=CPU)
    return logits(loaded.classifier, loaded.tokenizer, loaded.tokenizer.pad_id)


@pytest.fixture(scope="module")
def artefact(tiny_gemma, tmp_path_factory):
    directory = tmp_path_factory.mktemp("artefact") / "adapter"
    saved(tiny_gemma, directory)
    return directory


@pytest.fixture
def copy(artefact, tmp_path):
    return shutil.copytree(artefact, tmp_path / "copy")


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refused(directory: Path, match: str) -> ModelError:
    with pytest.raises(ModelError, match=match) as caught:
        load_artefact(directory, device=CPU)
    assert caught.value.where
    return caught.value


# --- it comes back the same


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_classifier_comes_back_with_the_same_logits(tiny_model, tmp_path, family):
    before, _ = saved(tiny_model(family), tmp_path / "adapter")
    assert np.array_equal(loaded_logits(tmp_path / "adapter"), before)


@pytest.mark.parametrize("variant", ["lora", "rslora", "dora", "pissa"])
@pytest.mark.parametrize("targets", ["all-linear", ["mlp.up_proj"]])
def test_each_variant_comes_back(tiny_gemma, tmp_path, variant, targets):
    before, _ = saved(tiny_gemma, tmp_path / "adapter", variant=variant, targets=targets)
    np.testing.assert_allclose(loaded_logits(tmp_path / "adapter"), before, rtol=0, atol=1e-6)


def test_the_manifest_comes_back(artefact, tiny_gemma, tmp_path):
    _, manifest = saved(tiny_gemma, tmp_path / "adapter")
    found = Manifest.read(tmp_path / "adapter")
    assert found.tensors_sha256
    assert dataclasses.replace(found, tensors_sha256="") == manifest
    loaded = load_artefact(artefact, device=CPU)
    assert loaded.labels == LABELS and loaded.manifest.temperature == 1.5
    assert not loaded.classifier.training


# --- transformers and PEFT alone

peft_is_behind = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT 0.21, 12/2026


SHORT = TEXTS[:6]
"""Texts within the limit, one of them with a control token written in it."""


def plain(model: Path, directory: Path):
    """What a stranger would do: transformers' pipeline of its classifier, PEFT's adapter and the saved tokenizer."""
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

    config = AutoConfig.from_pretrained(directory)
    body = AutoModelForSequenceClassification.from_pretrained(model, config=config)
    classifier = PeftModel.from_pretrained(body, directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return pipeline("text-classification", classifier, tokenizer=tokenizer, top_k=None, function_to_apply="none")


def plain_logits(model: Path, directory: Path):
    """Logits of SHORT from the texts as they are, columns in the order of LABELS."""
    rows = plain(model, directory)(SHORT, batch_size=4)
    return np.array([[score["score"] for score in sorted(row, key=lambda score: score["label"])] for row in rows])


@peft_is_behind
@pytest.mark.parametrize("family", WITH_A_CLASS)
def test_a_plain_pipeline_on_raw_texts_gives_the_same_logits(tiny_model, tmp_path, family):
    before, manifest = saved(tiny_model(family), tmp_path / "adapter")
    np.testing.assert_allclose(plain_logits(tiny_model(family), tmp_path / "adapter"), before[:6], rtol=0, atol=1e-5)
    config = plain(tiny_model(family), tmp_path / "adapter").model.config
    assert config._attn_implementation == manifest.attention
    assert config.id2label == dict(enumerate(LABELS.names))
    assert config.label2id == {name: i for i, name in enumerate(LABELS.names)}


def test_the_saved_tokenizer_reads_the_beginning_of_a_long_text_and_the_whole_template(tiny_gemma, artefact):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(artefact)
    ids = tokenizer(TEXTS[-1], truncation=True)["input_ids"]
    assert len(ids) == 40
    read = tokenizer.decode(ids[1:])
    assert read.endswith("\nSentiment:") and TEXTS[-1].startswith(read.removesuffix("\nSentiment:"))


@pytest.mark.parametrize("family", ["gemma3_text", "gemma3", "gemma4", "llama", "qwen2"])
def test_the_saved_tokenizer_survives_saving_by_transformers(tiny_model, tmp_path, family):
    """And beside a config of any family: classes such as GemmaTokenizer would build a tokenizer of their own."""
    from transformers import AutoTokenizer

    saved(tiny_model(family), tmp_path / "adapter")
    first = AutoTokenizer.from_pretrained(tmp_path / "adapter")
    first.save_pretrained(tmp_path / "again")
    shutil.copy(tmp_path / "adapter" / "config.json", tmp_path / "again")
    second = AutoTokenizer.from_pretrained(tmp_path / "again")
    ours = load_artefact(tmp_path / "adapter", device=CPU).tokenizer.encode(SHORT).ids
    for text, row in zip(SHORT, ours, strict=True):
        assert first(text)["input_ids"] == second(text)["input_ids"] == row.tolist()
    for tokenizer in (first, second):
        assert (tokenizer.padding_side, tokenizer.truncation_side, tokenizer.model_max_length) == ("right", "right", 40)


def test_a_base_that_is_an_adapter_directory_with_weights_gets_its_template_once(tiny_gemma, artefact, tmp_path):
    """As a merged model's directory: its tokenizer carries a template, and tonetune puts its own around a text."""
    model = shutil.copytree(tiny_gemma, tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(artefact / name, model)
    saved(model, tmp_path / "adapter")
    first, second = (load_artefact(path, device=CPU).tokenizer for path in (artefact, tmp_path / "adapter"))
    for one, other in zip(first.encode(TEXTS).ids, second.encode(TEXTS).ids, strict=True):
        assert np.array_equal(one, other)


@peft_is_behind
@pytest.mark.parametrize("variant", ["rslora", "dora", "loraplus", "pissa"])
@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_peft_alone_loads_each_variant(tiny_gemma, tmp_path, variant, targets):
    before, _ = saved(tiny_gemma, tmp_path / "adapter", variant=variant, targets=targets)
    np.testing.assert_allclose(plain_logits(tiny_gemma, tmp_path / "adapter"), before[:6], rtol=0, atol=1e-5)


@peft_is_behind
@pytest.mark.parametrize("variant", ["lora", "rslora", "dora", "pissa"])
def test_the_file_is_what_peft_itself_would_write(tiny_gemma, tmp_path, variant):
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForSequenceClassification

    saved(tiny_gemma, tmp_path / "adapter", variant=variant)
    config = AutoConfig.from_pretrained(tmp_path / "adapter")
    body = AutoModelForSequenceClassification.from_pretrained(tiny_gemma, config=config)
    PeftModel.from_pretrained(body, tmp_path / "adapter").save_pretrained(tmp_path / "again")
    ours, theirs = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("adapter", "again"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    ours, theirs = (json.loads((tmp_path / name / "adapter_config.json").read_text()) for name in ("adapter", "again"))
    for key in ("target_modules", "modules_to_save"):  # PEFT writes sets and repeats
        assert set(ours.pop(key)) == set(theirs.pop(key))
    assert ours == theirs


@peft_is_behind
def test_peft_finds_the_base_by_itself(tiny_gemma, artefact):
    from peft import AutoPeftModelForSequenceClassification

    model = AutoPeftModelForSequenceClassification.from_pretrained(artefact, num_labels=3)
    assert model.base_model.model.score.modules_to_save["default"].weight.shape == (3, 32)
    assert json.loads((artefact / "adapter_config.json").read_text())["base_model_name_or_path"] == str(tiny_gemma)


def test_no_file_says_where_a_cache_keeps_the_base(tiny_gemma, tmp_path):
    base = tiny.load(tiny_gemma)
    base = dataclasses.replace(base, source=dataclasses.replace(base.source, name="demo", revision="5" * 64))
    _, manifest = saved(tiny_gemma, tmp_path / "whole")
    classifier, _ = trained(base)
    tokenizer = text_tokenizer(base, template=Template.parse(manifest.template), max_length=40)
    manifest = dataclasses.replace(manifest, base=base.source.name)
    save_artefact(tmp_path / "adapter", classifier.snapshot(), base, tokenizer, manifest)
    assert (
        json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"]
        == f"sha256:{'5' * 64}"
    )
    assert not any(str(tiny_gemma).encode() in path.read_bytes() for path in (tmp_path / "adapter").iterdir())


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("pad", [None, tiny.EOS])
def test_a_base_without_a_pad_of_its_own_gets_one_in_the_config(tiny_model, tmp_path, family, pad):
    """transformers pools the last token that is not the config's pad: without one it refuses batches."""
    model = shutil.copytree(tiny_model(family), tmp_path / "model")
    rewrite(model / "config.json", pad_token_id=pad)
    saved(model, tmp_path / "adapter")
    assert (
        json.loads((tmp_path / "adapter" / "config.json").read_text())["pad_token_id"] == tiny.load(model).pad_id == 0
    )


# --- what was changed is refused


@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 1.0])
def test_one_changed_byte_of_the_adapter_is_refused(copy, where):
    path = copy / "adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[int(where * (len(content) - 1))] ^= 1
    path.write_bytes(content)
    assert refused(copy, "do not match their checksum").hint


def test_a_missing_or_shortened_adapter_is_refused(copy):
    path = copy / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    refused(copy, "checksum")
    path.unlink()
    refused(copy, r"no adapter_model\.safetensors")


@pytest.mark.parametrize(
    "names", [["joy", "anger", "sadness"], ["anger", "joy"], ["anger", "joy", "Sadness"], ["joy", "joy", "joy"], []]
)
def test_changed_label_names_are_refused(copy, names):
    rewrite(copy / "tonetune.json", labels=names)
    refused(copy, "label names")


@pytest.mark.parametrize("names", [["joy", "anger", "sadness"], ["LABEL_0", "LABEL_1", "LABEL_2"], ["anger", "joy"]])
def test_a_config_with_other_labels_is_refused(copy, names):
    """transformers would answer with them; it numbers labels anew where it is told their number."""
    rewrite(copy / "config.json", id2label={str(i): name for i, name in enumerate(names)})
    refused(copy, "id2label is .* in tonetune.json")


def test_an_adapter_without_its_head_is_refused_whatever_its_checksum(copy):
    tensors = load_file(copy / "adapter_model.safetensors")
    head = tensors.pop("base_model.model.score.weight")
    assert head.shape == (3, 32) and head.dtype == torch.float32 and head.abs().min() > 0
    save_file(tensors, copy / "adapter_model.safetensors")
    checksum = hashlib.sha256((copy / "adapter_model.safetensors").read_bytes()).hexdigest()
    rewrite(copy / "tonetune.json", tensors_sha256=checksum)
    refused(copy, r"1 tensors do not fit the base: base_model\.model\.score\.weight")


def test_a_head_of_another_size_is_refused(copy):
    labels = LabelSet(("a", "b", "c", "d"))
    rewrite(copy / "tonetune.json", labels=labels.names, label_sha256=labels.hash)
    (copy / "config.json").unlink()
    refused(copy, r"1 tensors do not fit the base: base_model\.model\.score\.weight")


def test_an_adapter_that_was_saved_without_its_head_is_refused(copy):
    """As PEFT saves one that it was not told to be a classifier's."""
    path = copy / "adapter_model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(path).items() if "score" not in name}
    save_file(tensors, path)
    rewrite(copy / "tonetune.json", tensors_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    refused(copy, r"1 tensors do not fit the base: base_model\.model\.score\.weight")


def test_another_rank_is_refused(copy):
    lora = json.loads((copy / "tonetune.json").read_text())["lora"]
    rewrite(copy / "tonetune.json", lora={**lora, "rank": 1})
    refused(copy, "tensors do not fit the base")


def test_a_layer_without_its_tensors_is_refused(copy):
    lora = json.loads((copy / "tonetune.json").read_text())["lora"]
    rewrite(copy / "tonetune.json", lora={**lora, "targets": [*lora["targets"], "model.layers.0.mlp.up_proj"]})
    refused(copy, "2 tensors do not fit the base")
    rewrite(copy / "tonetune.json", lora={**lora, "targets": [*lora["targets"], "model.layers.9.mlp.up_proj"]})
    refused(copy, r"model\.layers\.9\.mlp\.up_proj")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"{}", b'{"schema": 1}', b'{"schema": 1, "odd": 2}'])
def test_a_damaged_manifest_is_refused(copy, content):
    (copy / "tonetune.json").write_bytes(content)
    error = refused(copy, r"damaged|schema")
    assert str(error.where).endswith("tonetune.json")


@pytest.mark.parametrize("dtype", ["float33", "Tensor", 3])
def test_an_unknown_number_format_is_refused(copy, dtype):
    rewrite(copy / "tonetune.json", dtype=dtype)
    refused(copy, "damaged: dtype")


def test_a_classifier_computes_in_the_number_format_of_its_manifest(copy):
    rewrite(copy / "tonetune.json", dtype="bfloat16")
    loaded = load_artefact(copy, device=CPU)
    assert loaded.classifier.get_submodule("model").dtype == torch.bfloat16
    assert {parameter.dtype for parameter in loaded.classifier.trainable().values()} == {torch.float32}


def test_a_manifest_with_a_key_more_or_less_is_refused(copy):
    document = json.loads((copy / "tonetune.json").read_text())
    rewrite(copy / "tonetune.json", surprise=1)
    refused(copy, "damaged.*surprise")
    for key in ("template", "labels", "lora", "words"):
        (copy / "tonetune.json").write_text(json.dumps({k: v for k, v in document.items() if k != key}))
        refused(copy, f"damaged.*{key}")


def test_a_directory_without_manifest_is_no_classifier(copy, tiny_gemma):
    (copy / "tonetune.json").unlink()
    refused(copy, r"no tonetune\.json")
    refused(tiny_gemma, r"no tonetune\.json")


# --- the attention kernel


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_classifier_computes_with_the_kernel_it_was_trained_with(tiny_gemma, tmp_path, kernel):
    saved(tiny_gemma, tmp_path / "adapter")
    for name, key in (("tonetune.json", "attention"), ("config.json", "attn_implementation")):
        rewrite(tmp_path / "adapter" / name, **{key: kernel})
    assert load_artefact(tmp_path / "adapter", device=CPU).base.body.config._attn_implementation == kernel


def test_another_kernel_than_in_training_is_refused(copy):
    rewrite(copy / "config.json", attn_implementation="eager")
    refused(copy, "attn_implementation is eager, and sdpa in tonetune.json")


def test_a_kernel_that_leaves_out_what_was_trained_is_refused(tiny_model, tmp_path):
    """Gemma 2's soft cap, which changes the logits."""
    saved(tiny_model("gemma2"), tmp_path / "adapter")
    for name, key in (("tonetune.json", "attention"), ("config.json", "attn_implementation")):
        rewrite(tmp_path / "adapter" / name, **{key: "sdpa"})
    with pytest.raises(ConfigError, match=r"sdpa is wrong for Gemma 2: .* soft cap"):
        load_artefact(tmp_path / "adapter", device=CPU)


# --- the base


def test_another_base_is_refused(tiny_gemma, tmp_path):
    model = shutil.copytree(tiny_gemma, tmp_path / "model")
    saved(model, tmp_path / "adapter")
    before = loaded_logits(tmp_path / "adapter")
    shutil.rmtree(model)
    refused(tmp_path / "adapter", "no such directory")
    tiny.write_model(model, "gemma3_text", seed=1)
    refused(tmp_path / "adapter", "not the one this adapter was trained on")
    shutil.rmtree(model)
    tiny.write_model(model, "gemma3_text", seed=0)
    assert np.array_equal(loaded_logits(tmp_path / "adapter"), before)


def change_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def test_the_fingerprint_knows_weights_config_and_tokenizer(tiny_gemma, tmp_path):
    model = shutil.copytree(tiny_gemma, tmp_path / "model")
    original = fingerprint(find_base(str(model)))
    assert fingerprint(find_base(str(tiny_gemma))) == original, "a copy is the same base"
    (model / "README.md").write_text("notes")
    assert fingerprint(find_base(str(model))) == original, "notes do not count"
    seen = {original}
    for name in ("model.safetensors", "tokenizer.json"):
        change_byte(model / name)
        seen.add(fingerprint(find_base(str(model))))
    rewrite(model / "config.json", sliding_window=tiny.WINDOW + 1)
    seen.add(fingerprint(find_base(str(model))))
    assert len(seen) == 4
