"""Models, adapters, bundles and runs from strangers: nothing in them is run, and lies cost an error, not memory."""

import contextlib
import json
import os
import shutil
import struct
import time
from pathlib import Path

import pytest
import tiny
import torch
from fuzz_targets import MANIFEST
from safetensors.torch import load_file, save_file

from tonetune.bundle import Bundle
from tonetune.data.tokens import read_tokenizer, read_tokenizer_config
from tonetune.errors import DataError, ModelError, TonetuneError
from tonetune.model import chat
from tonetune.model.artefact import Lora, Manifest, adapted, read_tensors
from tonetune.model.checkpoint import read_checkpoint, weight_map
from tonetune.model.gguf_header import read_header
from tonetune.model.hub import read_config
from tonetune.model.loading import load_base
from tonetune.model.source import find_base
from tonetune.rundir import RunDir, read_json, read_jsonl
from tonetune.training import checkpoints
from tonetune.training.checkpoints import MANIFEST as CHECKPOINT

DEEP = 10_000
CPU = torch.device("cpu")


@pytest.fixture
def model(tiny_gemma, tmp_path):
    return shutil.copytree(tiny_gemma, tmp_path / "model")


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("text", ['{"a":' * DEEP + "1" + "}" * DEEP, '{"schema": ' + "9" * 5000 + "}", '{"a": NaN}'])
def test_documents_that_are_too_much_are_damaged(tmp_path, text):
    readers = {
        "tonetune.json": [lambda path: Manifest.read(path.parent), lambda path: Bundle.read(path.parent)],
        "run.json": [read_json],
        "metrics.jsonl": [read_jsonl],
    }
    if "NaN" not in text:  # which config.json of some models holds
        readers |= {
            "config.json": [read_config],
            "tokenizer_config.json": [lambda path: read_tokenizer_config(path.parent)],
        }
    readers["model.safetensors.index.json"] = [lambda path: weight_map(path.parent)]
    for name, reading in readers.items():
        (tmp_path / name).write_text(text + "\n")
        for read in reading:
            with pytest.raises(TonetuneError, match="damaged"):
                read(tmp_path / name)


WRONG = {
    "temperature": ["0", "-1", "1e999", "NaN", '"1"', "null"],
    "max_length": ["0", "-5", "1e30", str(10**30), "true"],
    "labels": ['"ab"', "[1, 2]", "{}", "[[]]"],
    "dtype": ['"__dict__"', '"int8x"', "[]"],
    "thresholds": ['{"a": "b"}', "[]"],
    "template": ["7", "null"],
}


@pytest.mark.parametrize("kind", ["manifest", "bundle"])
def test_values_of_a_wrong_type_or_out_of_bounds_are_refused_by_name(tmp_path, kind):
    bundle = {k: v for k, v in MANIFEST.items() if k not in ("words", "attention", "lora")}
    bundle |= {"kind": "onnx", "bos_id": 2, "pad_id": 0, "temperature": 1.0, "base": {}}
    sound, read = (MANIFEST, Manifest.read) if kind == "manifest" else (bundle, Bundle.read)
    (tmp_path / "tonetune.json").write_text(json.dumps(sound))
    read(tmp_path)
    for key, values in WRONG.items():
        for value in values:
            text = json.dumps({**sound, key: "PLACE"}).replace('"PLACE"', value)
            (tmp_path / "tonetune.json").write_text(text)
            with pytest.raises(ModelError, match=f"damaged: .*({key}|NaN)"):
                read(tmp_path)


def test_a_bundle_names_no_file_elsewhere(tmp_path):
    (tmp_path / "secret").write_text("x")
    directory = tmp_path / "bundle"
    directory.mkdir()
    sound = {k: v for k, v in MANIFEST.items() if k not in ("words", "attention", "lora")}
    sound |= {"kind": "onnx", "bos_id": 2, "pad_id": 0, "temperature": 1.0, "base": {}}
    for name in ("../secret", str(tmp_path / "secret"), "..", "a/../../secret"):
        (directory / "tonetune.json").write_text(json.dumps({**sound, "files": {name: "0"}}))
        with pytest.raises(ModelError, match="lacks"):
            Bundle.read(directory)


@pytest.mark.parametrize("text", ['{"a":' * DEEP + "1" + "}" * DEEP, '{"files": {"../secret": {"sha256": ""}}}'])
def test_a_checkpoint_names_no_file_elsewhere_and_may_not_be_deep(tmp_path, text):
    (tmp_path / "secret").write_bytes(b"")
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / CHECKPOINT).write_text(text)
    with pytest.raises(DataError, match=r"not what was written: .*(no name of a file|too deeply)"):
        checkpoints.read_checkpoint(tmp_path / "step-1")


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd.safetensors", "..", "a/b.safetensors", 7, None])
def test_an_index_names_no_shard_elsewhere(tmp_path, name):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelError, match="no weight file beside it"):
        weight_map(tmp_path)


def header(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


LIES = {
    "a length of 2^63": struct.pack("<Q", 1 << 63) + b"{}",
    "a length of -1": b"\xff" * 8 + b"{}",
    "a length over the file": struct.pack("<Q", 1000) + b"{}",
    "nothing": b"",
    "deep metadata": header('{"a":' * DEEP + "1" + "}" * DEEP),
    "a shape of 2^62": header('{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}')
    + bytes(16),
    "offsets below zero": header('{"a":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}}'),
    "data behind the end": header('{"a":{"dtype":"F32","shape":[400000000],"data_offsets":[0,1600000000]}}'),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_safetensors_header_that_lies_is_refused(tmp_path, lie):
    for name in ("model.safetensors", "adapter_model.safetensors"):
        (tmp_path / name).write_bytes(LIES[lie])
    with pytest.raises(ModelError):
        read_checkpoint(tmp_path)
    with pytest.raises(ModelError):
        read_tensors(tmp_path, expected_sha256=None)


def gguf(num_tensors: int, num_values: int, body: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_values) + body


def word(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


GGUF_LIES = {
    "nothing": b"GGUF",
    "2^63 values": gguf(1 << 63, 1 << 63, b""),
    "a word of 2^64": gguf(0, 1, b"\xff" * 8),
    "lists in lists": gguf(0, 1, word(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000),
    "a list of 2^60": gguf(0, 1, word(b"k") + struct.pack("<IIQ", 9, 0, 1 << 60)),
    "no alignment": gguf(0, 1, word(b"general.alignment") + struct.pack("<II", 4, 0)),
    "an alignment below zero": gguf(0, 1, word(b"general.alignment") + struct.pack("<Ii", 5, -7)),
    "a word for an alignment": gguf(0, 1, word(b"general.alignment") + struct.pack("<I", 8) + word(b"x")),
    "2^32 dimensions": gguf(1, 0, word(b"t") + b"\xff" * 4),
    "a shape of 2^128": gguf(1, 0, word(b"t") + struct.pack("<I", 2) + b"\xff" * 16 + struct.pack("<IQ", 0, 0)),
}


@pytest.mark.parametrize("lie", GGUF_LIES)
def test_a_gguf_header_that_lies_is_refused(tmp_path, lie):
    pytest.importorskip("gguf", reason="the extra gguf is absent")
    (tmp_path / "a.gguf").write_bytes(GGUF_LIES[lie])
    with pytest.raises(ModelError):
        read_header(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**7},
        {"num_hidden_layers": -1},
        {"intermediate_size": 10**12},
        {"vocab_size": 10**9},
        {"head_dim": 2**62},
        {"hidden_size": "x"},
        {"num_attention_heads": 0},
        {"layer_types": "x"},
        {"rope_parameters": [[]]},
    ],
    ids=str,
)
def test_a_config_of_a_model_that_no_file_holds_costs_no_memory(model, changes):
    edit(model / "config.json", **changes)
    begun = time.perf_counter()
    with pytest.raises(ModelError):
        tiny.load(model)
    assert time.perf_counter() - begun < 5


def test_a_rank_that_the_tensors_do_not_have_costs_no_memory(tiny_gemma):
    base = tiny.load(tiny_gemma)
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    lora = Lora(10**12, 8.0, 0.0, "lora", ("model.layers.0.self_attn.q_proj",))
    for tensors in ({name: torch.zeros(4, 32)}, {}):
        with pytest.raises(ModelError, match=r"another rank|no adapter"):
            adapted(base, lora, tensors, base.layout, num_labels=2, where="x")


def test_a_library_that_panics_is_an_error(tmp_path):
    """A panic in Rust is no Exception to Python."""
    normalizer = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "normalizer": normalizer, "model": model}))
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        read_tokenizer(tmp_path)


MARKER = "import pathlib\npathlib.Path({path!r}).write_text('run')\nclass Own: pass\n"


def test_code_beside_a_model_is_never_run(model, tmp_path, monkeypatch):
    """`auto_map` names classes in files of the model's own, which transformers runs where it is told to trust them."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to run it"))
    marker = tmp_path / "marker"
    (model / "own.py").write_text(MARKER.format(path=str(marker)))
    own = {"AutoConfig": "own.Own", "AutoModel": "own.Own", "AutoTokenizer": ["own.Own", "own.Own"]}
    edit(model / "config.json", auto_map=own)
    edit(model / "tokenizer_config.json", auto_map=own, tokenizer_class="Own")
    (model / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    with contextlib.suppress(ModelError):  # of the tokenizer that there is not
        tiny.load(model)
    (model / "chat_template.jinja").unlink()
    (model / "tokenizer_config.json").unlink()
    base = tiny.load(model)
    assert base.body.__class__.__module__.startswith("transformers.")
    assert not marker.exists()


def test_pickled_weights_are_not_read(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no weights"):
        find_base(str(model))


@pytest.mark.parametrize("kernel", ["someone/kernels", "kernels-community/flash-attn", "flash_attention_2"])
def test_an_attention_kernel_of_the_hub_is_not_fetched(tiny_gemma, kernel):
    """transformers would download and run it."""
    with pytest.raises(TonetuneError, match="is wrong for"):
        load_base(find_base(str(tiny_gemma)), dtype=torch.float32, device=CPU, attention=kernel, gate=False)


def test_a_config_chooses_no_attention_kernel(model):
    for key in ("attn_implementation", "_attn_implementation", "experts_implementation"):
        edit(model / "config.json", **{key: "someone/kernels"})
        assert tiny.load(model).body.config._attn_implementation == "sdpa"


TEMPLATES = {
    "an attribute of Python": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "a module": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "a number by zero": "{{ 1 / 0 }}",
    "a long range": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "deep brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_cannot_leave_its_sandbox(model, name):
    (model / "chat_template.jinja").write_text(TEMPLATES[name])
    with pytest.raises(ModelError, match="chat template"):
        chat.read_chat(model)


def test_a_chat_template_that_does_not_end_is_refused(model, monkeypatch):
    monkeypatch.setattr(chat, "LIMIT_S", 0.01)  # its thread ends soon after all the same
    loop = "{% for i in range(3000) %}" * 2 + "{% endfor %}" * 2
    (model / "chat_template.jinja").write_text(loop)
    with pytest.raises(ModelError, match="does not end within"):
        chat.read_chat(model)


def test_a_run_with_a_link_out_of_it_is_refused(tmp_path):
    """What evaluate and report write to a run would be written there."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    for directory in (run, outside):
        directory.mkdir()
    (run / "run.json").write_text("{}")
    (run / "best.json").symlink_to("run.json")
    RunDir.open(run)
    for name, target in {
        "eval": outside,
        "metrics.jsonl": outside / "new",
        "report.html": Path("../outside/x"),
    }.items():
        (run / name).symlink_to(target)
        with pytest.raises(TonetuneError, match=f"{name} is a link that leads out"):
            RunDir.open(run)
        (run / name).unlink()


def test_an_onnx_graph_reads_no_file_elsewhere(tmp_path):
    """Tensors of a graph may lie in other files, by their path."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx is absent")
    pytest.importorskip("onnxruntime", reason="the extra onnx is absent")
    from tonetune.runtime import onnx_session

    (tmp_path / "secret").write_bytes(b"\0\0\x80\x3f" * 4)
    directory = tmp_path / "bundle"
    directory.mkdir()
    for place in ("../secret", str(tmp_path / "secret")):
        weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=place)
        output = onnx.helper.make_tensor_value_info("y", 1, [4])
        graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], [weight])
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        (directory / "model.onnx").write_bytes(made.SerializeToString())
        with pytest.raises(ModelError, match="cannot read the graph"):
            onnx_session(directory / "model.onnx")


def test_a_weight_file_with_a_deep_name_or_too_many_tensors_is_read_or_refused(model):
    tensors = load_file(model / "model.safetensors")
    save_file({**tensors, "../../x": torch.zeros(1), "a" * 5000: torch.zeros(1)}, model / "model.safetensors")
    with pytest.raises(ModelError, match="not used from"):
        tiny.load(model)
    assert not os.path.exists(model.parent.parent / "x")
