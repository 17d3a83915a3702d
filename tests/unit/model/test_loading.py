"""Loading: what is loaded is what the checkpoint holds, and anything less is an error that says so."""

import itertools
import json
import shutil
from types import SimpleNamespace

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from tonetune.errors import ModelError
from tonetune.model import loading
from tonetune.model.loading import GATE_LOSS, language_model_loss, load_base, pad_id
from tonetune.model.source import find_base
from tonetune.model.tokenizer_checks import ENGLISH

CPU = torch.device("cpu")


load = tiny.load


@pytest.fixture
def model(tiny_gemma, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(tiny_gemma, tmp_path / "model")


def edit(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refused(directory, match, *, gate=False):
    with pytest.raises(ModelError, match=match) as caught:
        load(directory, gate=gate)
    assert str(directory) in str(caught.value.where)
    return caught.value


# --- what is loaded


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_body_is_frozen_and_knows_its_special_tokens(tiny_model, family):
    base = load(tiny_model(family))
    assert not any(p.requires_grad for p in base.body.parameters())
    assert not base.body.training
    assert base.hidden == 32
    assert base.pad_id == tiny.PAD
    assert base.bos_id == (tiny.BOS if base.family.has_bos else None)
    assert base.gate_loss is None


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_rows_of_the_head_are_those_of_the_language_model(tiny_model, family):
    weight = tiny.language_model(tiny_model(family)).lm_head.weight
    rows = load(tiny_model(family)).lm_head_rows([7, 3, 3])
    assert torch.equal(rows, weight[[7, 3, 3]]) and rows.dtype == torch.float32


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_loss_is_that_of_the_language_model(tiny_model, family):
    """The sum over the sentence with transformers' own head, soft cap of Gemma 2 included."""
    base = load(tiny_model(family))
    bos = [] if base.bos_id is None else [base.bos_id]
    ids = torch.tensor([bos + base.tokenizer.encode(ENGLISH, add_special_tokens=False).ids])
    with torch.no_grad():
        expected = tiny.language_model(tiny_model(family))(input_ids=ids, labels=ids).loss
    assert language_model_loss(base) == pytest.approx(float(expected), abs=1e-4)


def test_rows_are_float32_in_a_bfloat16_model(tiny_model):
    for family in ("gemma3_text", "llama"):
        base = load_base(
            find_base(str(tiny_model(family))), dtype=torch.bfloat16, device=CPU, attention="sdpa", gate=False
        )
        assert base.lm_head_rows([5]).dtype == torch.float32


def split(directory):
    """Two shards, the head of an untied model in the second."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    late = {name for name in tensors if "lm_head" in name or "norm" in name}
    parts = {"a.safetensors": {}, "b.safetensors": {}}
    for name, tensor in tensors.items():
        parts["b.safetensors" if name in late else "a.safetensors"][name] = tensor
    for file, part in parts.items():
        save_file(part, directory / file, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, part in parts.items() for name in part}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("family", ["gemma3_text", "llama"])
def test_a_sharded_model_loads_as_the_whole_one(tiny_model, tmp_path, family):
    directory = shutil.copytree(tiny_model(family), tmp_path / family)
    split(directory)
    whole, parts = load(tiny_model(family)), load(directory)
    assert torch.equal(parts.lm_head_rows([9]), whole.lm_head_rows([9]))
    assert language_model_loss(parts) == language_model_loss(whole)


class LargestFloat32(TorchDispatchMode):
    """The most elements that any float32 result of an operation inside has."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float32:
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "llama"])
def test_the_loss_in_bfloat16_is_near_and_takes_no_copy_of_the_head(tiny_model, tmp_path, monkeypatch, family):
    monkeypatch.setattr(loading, "ENGLISH", "cold and rainy")  # fewer tokens than the model is wide
    exact = language_model_loss(load(tiny_model(family)))
    model = AutoModelForCausalLM.from_pretrained(tiny_model(family), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / family)
    shutil.copy(tiny_model(family) / "tokenizer.json", tmp_path / family)
    source = find_base(str(tmp_path / family))
    base = load_base(source, dtype=torch.bfloat16, device=CPU, attention="eager", gate=False)
    with LargestFloat32() as largest:
        assert language_model_loss(base) == pytest.approx(exact, abs=0.05 * exact)
    num_tokens = len(base.tokenizer.encode("cold and rainy").ids)
    assert 0 < largest.elements <= num_tokens * tiny.VOCABULARY < base.hidden * tiny.VOCABULARY


@pytest.mark.parametrize("shown", [True, False])
def test_loading_leaves_the_progress_bars_as_they_were(tiny_gemma, monkeypatch, shown):
    monkeypatch.setattr(logging, "_tqdm_active", shown)
    load(tiny_gemma)
    assert logging.is_progress_bar_enabled() is shown


# --- the gate


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_random_weights_do_not_pass_the_gate(tiny_model, family):
    error = refused(tiny_model(family), "loss of .* random weights reach 7.6", gate=True)
    assert "model.load_gate: off" in str(error.hint)


def test_a_model_that_predicts_the_sentence_passes_the_gate(model):
    """Norms and head made so that the last layer's state points to the token that follows each token."""
    base = load(model)
    ids = [base.bos_id, *base.tokenizer.encode(ENGLISH, add_special_tokens=False).ids]
    tensors = load_file(model / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()  # the body is then its embedding
    rng = torch.Generator().manual_seed(0)
    embedding = torch.zeros_like(tensors["model.embed_tokens.weight"])
    embedding[sorted(set(ids))] = torch.randn(len(set(ids)), 32, generator=rng)
    tensors["model.embed_tokens.weight"] = embedding
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    edit(model, tie_word_embeddings=False)
    head = torch.zeros_like(embedding)
    for now, then in itertools.pairwise(ids):
        head[then] += embedding[now]
    save_file({**tensors, "lm_head.weight": head}, model / "model.safetensors", {"format": "pt"})
    loaded = load(model, gate=True)
    assert loaded.gate_loss is not None and 0 < loaded.gate_loss < GATE_LOSS


# --- damage


def test_an_unsupported_family_is_refused(model):
    edit(model, model_type="gemma4_assistant")
    refused(model, "'gemma4_assistant' is not supported: it is a drafter")


@pytest.mark.parametrize("suffix", [".0.mlp.up_proj.weight", ".1.self_attn.q_norm.weight", "model.norm.weight"])
def test_a_checkpoint_that_lacks_a_tensor_is_refused(model, suffix):
    tensors = load_file(model / "model.safetensors")
    (gone,) = [name for name in tensors if name.endswith(suffix)]
    tensors.pop(gone)
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    refused(model, f"1 tensors are missing from the checkpoint.*{gone.removeprefix('model.')}")


def rename(model, change):
    """Write the model's tensors under other names."""
    tensors = load_file(model / "model.safetensors")
    save_file({change(name): tensor for name, tensor in tensors.items()}, model / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.model.", "model.language_model.", "odd."])
def test_the_prefix_is_read_from_the_checkpoint(model, prefix):
    expected = language_model_loss(load(model))
    rename(model, lambda name: prefix + name.removeprefix("model."))
    assert load(model).checkpoint.prefix == prefix
    assert language_model_loss(load(model)) == expected


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda name: name.replace("embed_tokens", "wte"), "holds no text model; its tensors begin with model"),
        (lambda name: name.replace("layers.0.", "layers.9."), "holds no text model"),
        (lambda name: name.replace("layers.1.", "layers.2."), "tensors are missing from the checkpoint"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(model, change, match):
    rename(model, change)
    refused(model, match)


def test_a_tensor_too_many_is_refused_but_for_towers(model):
    def with_more(name):
        tensors = load_file(model / "model.safetensors")
        tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith("new.")}
        save_file({**tensors, name: torch.ones(1)}, model / "model.safetensors", {"format": "pt"})

    with_more("vision_tower.layers.0.weight")
    load(model)
    for name in ("new.extra.weight", "model.layers.2.mlp.up_proj.weight"):
        with_more(name)
        refused(model, "1 tensors are not used from the checkpoint")


def test_two_text_models_in_one_checkpoint_are_refused(model):
    tensors = load_file(model / "model.safetensors")
    both = tensors | {name.replace("model.", "decoder."): tensor.clone() for name, tensor in tensors.items()}
    save_file(both, model / "model.safetensors", {"format": "pt"})
    refused(model, "2 text models, below model., decoder.|2 text models, below decoder., model.")


@pytest.mark.parametrize("change", [{"hidden_size": 64}, {"intermediate_size": 40}, {"vocab_size": 4096}])
def test_a_config_of_another_shape_is_refused(model, change):
    edit(model, **change)
    refused(model, "cannot be loaded: .*size|of another shape")


@pytest.mark.parametrize(
    "change", [{"num_hidden_layers": "two"}, {"hidden_size": None}, {"layer_types": ["odd", "odd"]}]
)
def test_a_config_with_senseless_values_is_refused(model, change):
    edit(model, **change)
    refused(model, f"cannot be used: .*{next(iter(change))[:10]}")


@pytest.mark.parametrize("keep", [0, 7, 100, 5000])
def test_a_weight_file_that_was_cut_short_is_refused(model, keep):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    refused(model, "model.safetensors is damaged")


def test_an_untied_model_without_its_head_is_refused_where_the_head_is_needed(tiny_model, tmp_path):
    for sharded in (False, True):
        directory = shutil.copytree(tiny_model("llama"), tmp_path / str(sharded))
        tensors = load_file(directory / "model.safetensors")
        tensors.pop("lm_head.weight")
        save_file(tensors, directory / "model.safetensors", {"format": "pt"})
        if sharded:
            split(directory)
        base = load(directory)
        with pytest.raises(ModelError, match=r"no lm_head\.weight"):
            base.lm_head_rows([1])
        refused(directory, r"no lm_head\.weight", gate=True)


def test_a_tokenizer_larger_than_the_vocabulary_is_refused(model):
    tokenizer = tiny.tokenizer()
    tokenizer.add_tokens([f"<extra_{i}>" for i in range(tiny.VOCABULARY)])
    tokenizer.save(str(model / "tokenizer.json"))
    refused(model, f"ids up to .* only {tiny.VOCABULARY} embeddings")


def test_a_model_without_bos_is_refused_where_its_family_needs_one(model):
    edit(model, bos_token_id=None)
    refused(model, "no bos_token_id, and Gemma 3 needs BOS")


@pytest.mark.parametrize(
    ("special", "pad"),
    [
        ({"pad_token_id": None}, 0),
        ({"pad_token_id": -1}, 0),
        ({"pad_token_id": 3}, 3),
        ({"pad_token_id": 1}, 0),
        ({"pad_token_id": 5, "eos_token_id": [1, 5]}, 0),
        ({"pad_token_id": None, "eos_token_id": 0, "bos_token_id": 1}, 2),
        ({"pad_token_id": None, "eos_token_id": [1, 2], "bos_token_id": 0}, 3),
        ({"pad_token_id": None, "eos_token_id": None}, 0),
    ],
)
def test_the_pad_is_never_another_special_token(model, special, pad):
    edit(model, **special)
    (model / "tokenizer_config.json").unlink()  # which names its own
    base = load(model)
    assert base.pad_id == pad
    eos = special.get("eos_token_id", 1)
    assert base.pad_id not in (base.bos_id, *(eos if isinstance(eos, list) else [eos]))


def test_a_pad_is_a_token_that_no_text_holds():
    """As with Llama 3 and Qwen: no pad in the config, id 0 an exclamation mark, control tokens behind the words."""
    tokenizer = Tokenizer(models.BPE({"!": 0, "a": 1}, []))
    config = SimpleNamespace(bos_token_id=2, eos_token_id=3, pad_token_id=None)
    assert pad_id(config, tokenizer) == 0, "there is no other"
    tokenizer.add_special_tokens(["<bos>", "<eos>", "<reserved>"])
    assert pad_id(config, tokenizer) == tokenizer.token_to_id("<reserved>")
    config.pad_token_id = 9
    assert pad_id(config, tokenizer) == tokenizer.token_to_id("<reserved>"), "9 is no token"
