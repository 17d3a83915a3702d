"""Where a checkpoint keeps its text model, and what a damaged or hostile index leads to."""

import json

import pytest
import torch
from safetensors.torch import save_file

from tonetune.errors import ModelError
from tonetune.model.checkpoint import INDEX, SINGLE, read_checkpoint, text_prefix, weight_map

BODY = ("embed_tokens.weight", "layers.0.mlp.up_proj.weight", "norm.weight")


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.model.", "model.language_model."])
def test_the_text_model_is_where_embedding_and_layers_are(prefix):
    names = [prefix + name for name in BODY]
    towers = ["vision_tower.layers.0.weight", "audio_tower.embed_tokens.weight", "model.embed_tokens_per_layer.weight"]
    assert text_prefix([*towers, *names, "lm_head.weight"], where="DIR") == prefix


@pytest.mark.parametrize("names", [[], ["model.wte.weight"], ["embed_tokens.weight", "h.0.weight"]])
def test_a_checkpoint_without_a_text_model_is_refused(names):
    with pytest.raises(ModelError, match="holds no text model") as caught:
        text_prefix(names, where="DIR")
    assert caught.value.where == "DIR" and caught.value.hint


def test_many_parts_are_not_all_listed():
    with pytest.raises(ModelError, match="and 991 more"):
        text_prefix([f"part{i}.weight" for i in range(1000)], where="DIR")


def test_a_tensor_is_read_from_its_own_file(tmp_path):
    save_file({"model." + BODY[0]: torch.ones(2)}, tmp_path / "a.safetensors")
    save_file({"model." + BODY[1]: torch.ones(3), "lm_head.weight": torch.full((4,), 7.0)}, tmp_path / "b.safetensors")
    files = {
        "model." + BODY[0]: "a.safetensors",
        "model." + BODY[1]: "b.safetensors",
        "lm_head.weight": "b.safetensors",
    }
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": files}))
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.prefix == "model." and checkpoint.lm_head() == "lm_head.weight"
    assert checkpoint.tensor("lm_head.weight").tolist() == [7.0] * 4
    with pytest.raises(ModelError, match=r"no tensor odd\.weight"):
        checkpoint.tensor("odd.weight")


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_a_damaged_index_is_refused(tmp_path, content):
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(ModelError, match=r"is damaged|is no weight file beside it"):
        weight_map(tmp_path)


@pytest.mark.parametrize("file", ["../other/model.safetensors", "/etc/passwd", "a/b.safetensors", ".."])
def test_an_index_cannot_name_a_file_elsewhere(tmp_path, file):
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"model.embed_tokens.weight": file}}))
    with pytest.raises(ModelError, match="is no weight file beside it"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"12345678", b"\xff" * 100])
def test_a_damaged_weight_file_is_refused(tmp_path, content):
    (tmp_path / SINGLE).write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged") as caught:
        read_checkpoint(tmp_path)
    assert caught.value.hint == "fetch this file again"


def test_what_the_cache_holds_damaged_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path))
    (tmp_path / "gguf-1").mkdir()
    (tmp_path / "gguf-1" / SINGLE).write_bytes(b"cut sho")
    with pytest.raises(ModelError) as caught:
        read_checkpoint(tmp_path / "gguf-1")
    assert caught.value.hint == f"remove {tmp_path}/gguf-1: it will be made again"
