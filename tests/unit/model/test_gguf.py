"""GGUF files: what is loaded from one is the model that was written into it, or an error that says what is not."""

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from safetensors.numpy import load_file

ggml = pytest.importorskip("gguf")

import tiny_gguf  # noqa: E402

from tonetune.errors import DiskError, MissingExtraError, ModelError, TonetuneError, TrainingError  # noqa: E402
from tonetune.model import gguf, gguf_base  # noqa: E402
from tonetune.model.gguf_header import read_header  # noqa: E402
from tonetune.model.loading import read_text_config  # noqa: E402
from tonetune.model.source import find_base  # noqa: E402

IDS = torch.tensor([[tiny.BOS, *range(300, 500)]])
TEXTS = ["I was happy today, really! 今天 开心 <eos> 😊", "  two  spaces\n\nand a line, it's"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(cache, monkeypatch):
    """Conversions in this process: a program of its own takes seconds to start."""

    def convert(file: Path, directory: Path) -> None:
        for write in gguf.PARTS.values():
            write(file, directory)

    monkeypatch.setattr(gguf_base, "convert", convert)
    return cache


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A model directory by family, made once."""
    root = tmp_path_factory.mktemp("models")

    def of(family: str, **changes: object) -> Path:
        directory = root / "-".join([family, *map(str, changes)])
        return directory if directory.is_dir() else tiny_gguf.write_source(directory, family, **changes)

    return of


@torch.no_grad()
def states(directory):
    return tiny.load(directory).body(input_ids=IDS, use_cache=False).last_hidden_state


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir()) if cache.exists() else []


def refused(file, match, kind: type[TonetuneError] = ModelError) -> TonetuneError:
    with pytest.raises(kind, match=match) as caught:
        find_base(str(file))
    assert caught.value.where
    return caught.value


# --- what is loaded


@pytest.mark.parametrize("family", tiny_gguf.ARCHITECTURES)
def test_the_model_is_the_one_that_was_written(quick, written, tmp_path, family):
    file = tiny_gguf.write_gguf(tmp_path / f"{family}.gguf", written(family))
    torch.testing.assert_close(states(file), states(written(family)), rtol=0, atol=2e-5)
    ours, original = tiny.load(file), tiny.load(written(family))
    assert (ours.bos_id, ours.pad_id) == (original.bos_id, original.pad_id)
    assert [ours.tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS] == [
        original.tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS
    ]
    begin = [tiny.BOS] if ours.family.has_bos else []
    assert ours.tokenizer.encode("").ids == begin
    assert torch.equal(ours.lm_head_rows([9]), original.lm_head_rows([9]))


GEMMA4 = {
    "E2B": {**tiny.SHAPES["gemma4"][1]},
    "31B": {**tiny.KV, "attention_k_eq_v": True, "num_key_value_heads": 2, "num_global_key_value_heads": 1}
    | {"hidden_size_per_layer_input": 0, "global_head_dim": 32, "final_logit_softcapping": 5.0},
}
"""Changes to a tiny Gemma 4: embeddings per layer, shared keys and values and wide layers; or keys that are values."""


@pytest.mark.parametrize("size", GEMMA4)
def test_each_shape_of_gemma_4_is_the_one_that_was_written(quick, tmp_path, size):
    model = tiny_gguf.write_source(tmp_path / "model", "gemma4_text", **GEMMA4[size])
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", model)
    torch.testing.assert_close(states(file), states(model), rtol=0, atol=2e-5)


def test_keys_that_a_sharing_layer_does_not_use_are_left_in_the_file(quick, tmp_path, monkeypatch):
    model = tiny_gguf.write_source(tmp_path / "model", "gemma4_text", **GEMMA4["E2B"])
    add = tiny_gguf.add_tensor

    def more(writer, name, tensor, kind):
        add(writer, name, tensor, kind)
        if name in ("blk.1.attn_k.weight", "blk.1.attn_v.weight", "blk.1.attn_k_norm.weight"):
            add(writer, name.replace("1", "3", 1), tensor, kind)

    monkeypatch.setattr(tiny_gguf, "add_tensor", more)
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", model)
    torch.testing.assert_close(states(file), states(model), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"expert_count": 4}, "does not understand: expert_count = 4"),
        ({"attention__sliding_window_pattern": [True, False, True]}, "does not understand: attention.sliding_window_p"),
        ({"attention__key_length_swa": None}, r"does not say attention\.key_length_swa"),
        ({"attention__value_length_swa": 8}, "differ in a way that is not known"),
        ({"attention__head_count_kv": [1, 2, 1, 2]}, "differ in a way that is not known"),
        ({"feed_forward_length": [48, 48, 48, 96]}, "differ in a way that is not known"),
    ],
)
def test_a_gemma_4_that_would_not_be_followed_is_refused(quick, written, tmp_path, values, what):
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("gemma4_text"), **values), what)


ROPES = {
    "llama": {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "qwen2": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 64},
    "gemma3_text": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("family", ROPES)
def test_scaled_rotary_embeddings_are_those_of_the_file(quick, written, tmp_path, family):
    model = written(family, rope_parameters=ROPES[family])
    file = tiny_gguf.write_gguf(tmp_path / f"{family}.gguf", model)
    expected = states(model)
    torch.testing.assert_close(states(file), expected, rtol=0, atol=2e-5)
    assert (states(written(family)) - expected).abs().max() > 1e-3, "without scaling it would be another model"


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
@pytest.mark.parametrize("family", ["gemma3_text", "llama"])
def test_rounded_weights_are_unpacked_to_what_they_are(quick, written, tmp_path, family, kind):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written(family), kind=kind)
    original, found = load_file(written(family) / "model.safetensors"), tiny.load(file).checkpoint
    number = {"F16": torch.float16, "Q8_0": torch.bfloat16}[kind]
    packed = 0
    for name, tensor in original.items():
        kept = ggml.GGMLQuantizationType[kind if tensor.shape[-1] % 32 == 0 else "F16"]
        rounded = ggml.dequantize(ggml.quantize(tensor, kept), kept) if tensor.ndim > 1 else tensor
        packed += tensor.ndim > 1 and not np.array_equal(rounded, tensor)
        expected = torch.from_numpy(rounded.reshape(tensor.shape)).to(number)
        torch.testing.assert_close(found.tensor(name), expected, rtol=1e-2 if tensor.ndim == 1 else 0, atol=0)
    assert packed > 10


@pytest.mark.parametrize(
    ("family", "layers", "width"), [("gemma2", 46, 144), ("gemma3_text", 62, 168), ("gemma2", 26, 128)]
)
def test_the_largest_gemmas_scale_attention_by_their_width(written, tmp_path, family, layers, width):
    """Gemma 2 and 3 of 27 B parameters: query_pre_attn_scalar is 144 and 168, and else the width of a head."""
    shape = {"block_count": layers, "embedding_length": 32 * width, "attention__head_count": 32} if width != 128 else {}
    shape |= {"block_count": layers, "attention__key_length": 128, "attention__value_length": 128}
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written(family), **shape)
    assert gguf_base.config_of(read_header(file))["query_pre_attn_scalar"] == width


def test_a_gemma_without_a_window_has_full_attention_everywhere(written, tmp_path):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("gemma3_text"), attention__sliding_window=None)
    assert set(gguf_base.config_of(read_header(file))["layer_types"]) == {"full_attention"}


def test_words_come_before_merges_where_the_vocabulary_is_of_that_kind(quick, written, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_gguf, "PRE_TOKENIZER", "llama-bpe")
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("llama"))
    assert json.loads(tiny.load(file).tokenizer.to_str())["model"]["ignore_merges"] is True


# --- one file, one directory in the cache


def test_a_file_is_converted_once_and_found_wherever_it_goes(quick, written, tmp_path, monkeypatch):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"))
    said: list[str] = []
    first = find_base(str(file), say=said.append)
    assert first.name == str(file) and first.directory.parent == quick and first.revision in first.directory.name
    assert len(said) == 1 and "converted once, to 0 MiB: about 20 s" in said[0]
    monkeypatch.setattr(gguf_base, "convert", None)
    assert find_base(str(file)) == first
    moved = file.rename(tmp_path / "moved.gguf")
    assert find_base(str(moved)).directory == first.directory
    assert find_base(str(file), revision=first.revision) == first, "the file is gone and not needed"
    monkeypatch.chdir(tmp_path)
    assert find_base("moved.gguf").name == str(moved)
    assert left_in(quick) == [first.directory.name]
    assert not any(str(tmp_path) in path.read_text() for path in first.directory.glob("*.json"))


def test_a_cleared_cache_is_filled_again_from_the_same_file_only(quick, written, tmp_path):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"))
    first = find_base(str(file))
    before = (first.directory / "model.safetensors").read_bytes()
    shutil.rmtree(quick)
    assert find_base(str(file), revision=first.revision) == first
    assert (first.directory / "model.safetensors").read_bytes() == before
    shutil.rmtree(quick)
    tiny_gguf.write_gguf(file, written("qwen2"))
    with pytest.raises(ModelError, match=rf"has the SHA-256 \w+, .*{first.revision} is needed") as caught:
        find_base(str(file), revision=first.revision)
    assert caught.value.where == str(file) and "back in its place" in caught.value.hint
    file.unlink()
    with pytest.raises(ModelError, match=rf"the GGUF file is gone, .*{first.revision} is needed") as caught:
        find_base(str(file), revision=first.revision)
    assert str(quick) in caught.value.what and left_in(quick) == []


def test_a_file_that_changes_while_it_is_converted_is_refused(quick, written, tmp_path, monkeypatch):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"))
    monkeypatch.setattr(gguf_base, "convert", lambda *_: file.write_bytes(b"another"))
    refused(file, "has the SHA-256")
    assert left_in(quick) == []


@pytest.mark.parametrize("revision", ["main", "../../etc", "A" * 64])
def test_a_revision_that_is_no_checksum_is_refused(tmp_path, revision):
    with pytest.raises(ModelError, match="no SHA-256") as caught:
        find_base(str(tmp_path / "model.gguf"), revision=revision)
    assert caught.value.where == "model.revision"


# --- what is refused


def test_a_file_that_is_not_there_says_how_to_get_one(cache, tmp_path):
    assert "hf download" in refused(tmp_path / "model.gguf", "no such file").hint
    (tmp_path / "model.gguf").mkdir()
    refused(tmp_path / "model.gguf", "directory")


def test_without_the_extra_it_is_named(quick, written, tmp_path, monkeypatch):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match="extra 'gguf'"):
        find_base(str(file))
    assert left_in(quick) == []


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04" * 99])
def test_a_file_that_is_no_gguf_is_refused(cache, tmp_path, content):
    (tmp_path / "model.gguf").write_bytes(content)
    refused(tmp_path / "model.gguf", "no GGUF file")


def damaged(written, tmp_path, change) -> Path:
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"))
    content = bytearray(file.read_bytes())
    file.write_bytes(change(content) or content)
    return file


@pytest.mark.parametrize("length", [6, 24, 30, 200, 5000])
def test_a_header_cut_short_is_refused(quick, written, tmp_path, length):
    refused(damaged(written, tmp_path, lambda content: content[:length]), "header is damaged")
    assert left_in(quick) == []


def test_weights_cut_short_are_refused(quick, written, tmp_path):
    refused(damaged(written, tmp_path, lambda content: content[:-100]), "cut short")


def test_another_version_of_the_format_is_refused(quick, written, tmp_path):
    refused(damaged(written, tmp_path, lambda content: content.__setitem__(4, 1)), "GGUF version 1")


@pytest.mark.parametrize("place", [8, 16, 24, 32, 60, 100])
def test_a_damaged_header_is_an_error_and_no_crash(quick, written, tmp_path, place):
    with pytest.raises(ModelError):
        find_base(
            str(damaged(written, tmp_path, lambda content: content.__setitem__(slice(place, place + 6), b"\xff" * 6)))
        )


def test_another_architecture_is_named_with_those_that_are_read(quick, tmp_path):
    writer = ggml.GGUFWriter(tmp_path / "model.gguf", "gemma3n")
    writer.add_name("Gemma 3n \x1b[31m E4B")
    writer.add_block_count(35)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    error = refused(tmp_path / "model.gguf", r"gemma3n \(Gemma 3n .* E4B, 35 layers\).* transformers \d.* read llama")
    assert all(name in error.what for name in tiny_gguf.ARCHITECTURES.values())


def test_a_part_of_a_split_file_says_how_to_join_it(quick, tmp_path):
    writer = ggml.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "--merge" in refused(tmp_path / "model.gguf", "one of 3 parts").hint


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"attention__scale": 0.5}, r"does not understand: attention\.scale = 0\.5"),
        ({"expert_count": 8}, "expert_count = 8"),
        ({"attention__head_count": 0}, r"attention\.head_count = 0"),
        ({"rope__freq_base": float("nan")}, r"rope\.freq_base = nan"),
        ({"embedding_length": "wide"}, "embedding_length = wide"),
        ({"attention__head_count_kv": [1, 2]}, r"attention\.head_count_kv = \[1, 2\]"),
        ({"rope__scaling__type": "longrope"}, "kind 'longrope'"),
        ({"attention__value_length": 8}, r"widths of a head differ: .*value_length = 8"),
        ({"rope__dimension_count": 8}, r"widths of a head differ: .*dimension_count = 8"),
        ({"attention__head_count_kv": None}, r"does not say attention\.head_count_kv"),
        ({"block_count": None, "embedding_length": None}, "does not say embedding_length, block_count"),
    ],
)
def test_a_value_that_would_not_be_followed_is_refused(quick, written, tmp_path, values, what):
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3"), **values), what)
    assert left_in(quick) == []


def test_frequencies_of_another_rule_are_refused(quick, written, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny_gguf, "rope_frequencies", lambda config, width: np.linspace(1, 8, 8, dtype=np.float32))
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("llama")), "not what Llama 3's rule gives")


def test_a_tensor_without_a_place_in_the_model_is_refused(quick, written, tmp_path, monkeypatch):
    """transformers passes over biases that its config does not ask for."""
    names = tiny_gguf.add_tensor

    def twice(writer, name, tensor, kind):
        names(writer, name, tensor, kind)
        if name == "blk.0.attn_q.weight":
            names(writer, "blk.0.attn_q.bias", tensor[:, 0].copy(), kind)

    monkeypatch.setattr(tiny_gguf, "add_tensor", twice)
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("llama"))
    with pytest.raises(SystemExit, match=r"unused keys in model\.gguf: blk\.0\.attn_q\.bias"):
        find_base(str(file))
    assert left_in(quick) == []


def test_random_weights_do_not_pass_the_gate(quick, written, tmp_path):
    file = tiny_gguf.write_gguf(tmp_path / "model.gguf", written("gemma3_text"))
    with pytest.raises(ModelError, match=r"loss of .* random weights"):
        tiny.load(file, gate=True)


# --- a conversion that fails says why


@pytest.mark.parametrize(
    ("code", "last", "kind", "what"),
    [
        (1, "OSError: [Errno 28] No space left on device", DiskError, "the disk is full"),
        (1, "SafetensorError: I/O error: No space left on device (os error 28)", DiskError, "the disk is full"),
        (1, "ValueError: odd file", ModelError, "could not be converted: ValueError: odd file"),
        (1, "", ModelError, "could not be converted: exit code 1"),
        (-9, "", TrainingError, "memory ran out"),
        (1, "MemoryError", TrainingError, "memory ran out"),
    ],
)
def test_a_conversion_that_fails_says_why(cache, written, tmp_path, monkeypatch, code, last, kind, what):
    def failed(*args, **options):
        done = {"communicate": lambda: (None, f"Traceback\n{last}\n" if last else "")}
        return SimpleNamespace(returncode=code, kill=lambda: None, wait=lambda: code, **done)

    monkeypatch.setattr(gguf.subprocess, "Popen", failed)
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3")), what, kind)
    assert left_in(cache) == []


def test_a_conversion_that_cannot_begin_says_why(cache, written, tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(gguf.subprocess, "Popen", refuse)
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3")), r"could not be converted: .*temporarily")


def test_without_room_nothing_is_begun(cache, written, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_base, "convert", None)
    monkeypatch.setattr("tonetune.model.cache.shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    refused(tiny_gguf.write_gguf(tmp_path / "model.gguf", written("qwen3")), "needs 0 MiB", DiskError)
    assert left_in(cache) == []


@pytest.mark.slow
def test_the_config_that_is_written_is_complete(quick, written, tmp_path):
    """Everything that decides what the model computes is the original's."""
    for family in tiny_gguf.ARCHITECTURES:
        file = tiny_gguf.write_gguf(tmp_path / f"{family}.gguf", written(family))
        found, original = (read_text_config(find_base(str(path))).to_dict() for path in (file, written(family)))
        for names in (found, original):
            for name in ("architectures", "_name_or_path", "initializer_range", "transformers_version", "layer_types"):
                names.pop(name, None)
        different = {k for k in found.keys() | original.keys() if found.get(k) != original.get(k)}
        assert different <= {"rms_norm_eps", "head_dim"}, family
