"""Where a base comes from: each thing that can be wrong with it is named before anything is loaded."""

import json
import shutil

import pytest

from tonetune.errors import ModelError
from tonetune.model.source import find_base


@pytest.fixture
def model(tiny_gemma, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(tiny_gemma, tmp_path / "model")


def refused(base: object, match: str) -> ModelError:
    with pytest.raises(ModelError, match=match) as caught:
        find_base(str(base))
    assert caught.value.where, "an error says where"
    return caught.value


def test_a_whole_directory_is_taken(tiny_gemma):
    source = find_base(str(tiny_gemma))
    assert source.directory == tiny_gemma.resolve()
    assert source.name == str(tiny_gemma)
    assert source.config["model_type"] == "gemma3_text"
    assert source.revision is None


def test_the_name_of_a_relative_directory_finds_it_from_elsewhere(model, monkeypatch):
    monkeypatch.chdir(model)
    source = find_base("../model")
    monkeypatch.chdir("/")
    assert find_base(source.name) == source


def test_a_home_directory_is_understood(tiny_gemma, monkeypatch):
    monkeypatch.setenv("HOME", str(tiny_gemma.parent))
    assert find_base(f"~/{tiny_gemma.name}").directory == tiny_gemma.resolve()


def test_a_directory_without_config_lists_what_it_holds(model):
    (model / "config.json").unlink()
    assert refused(model, "no config.json; it holds .*model.safetensors").hint


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[1]", b'"text"'])
def test_a_damaged_config_is_named(model, content):
    (model / "config.json").write_bytes(content)
    error = refused(model, "config.json is damaged")
    assert str(error.where).endswith("config.json")


def test_a_directory_without_weights_lists_what_it_holds(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    assert "pickled" in str(refused(model, r"no weights .*pytorch_model\.bin").hint)


def test_an_empty_directory_holds_nothing(tmp_path):
    refused(tmp_path, "it holds nothing")


def sharded(model, shards, content=None):
    (model / "model.safetensors").rename(model / "part-1.safetensors")
    document = (
        content if content is not None else json.dumps({"weight_map": {f"w{i}": s for i, s in enumerate(shards)}})
    )
    (model / "model.safetensors.index.json").write_text(document)


def test_a_missing_shard_is_named(model):
    sharded(model, ["part-1.safetensors", "part-2.safetensors", "part-2.safetensors"])
    assert "fetch" in str(refused(model, r"1 of 2 weight files are missing: part-2\.safetensors").hint)


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"weight_map": 3}'])
def test_a_damaged_index_is_named(model, content):
    sharded(model, [], content)
    error = refused(model, r"model\.safetensors\.index\.json is damaged")
    assert str(error.where).endswith("index.json")


@pytest.mark.parametrize("name", ["nowhere", "./no/such", "/no/such", "a/b/c", "~/nothing-here", __file__])
def test_what_is_neither_a_directory_nor_a_hub_name_is_refused(name):
    assert ".gguf file" in refused(name, "no such directory").hint
