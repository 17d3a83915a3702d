"""What strangers can hand to tonetune, each as a function from bytes: it ends with a result or a TonetuneError.

`tests/hostile/test_fuzz.py` calls them with hypothesis, `scripts/fuzz` with atheris.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tonetune.errors import TonetuneError

PLACE = Path(tempfile.mkdtemp(prefix="tonetune-fuzz-"))
LABELS = ("anger", "joy")


def _file(name: str, data: bytes) -> Path:
    path = PLACE / str(os.getpid()) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _table(ending: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        from tonetune.data.inspect import inspect_files

        return inspect_files([_file(f"rows{ending}", data)], text="auto", label="auto").as_dict()

    return read


def _config(data: bytes) -> Any:
    from tonetune.config import load_config

    return load_config(_file("config.yaml", data))


def _rules(data: bytes) -> Any:
    from tonetune.annotate.weak import read_rules

    return read_rules(_file("rules.yaml", data))


def _gguf(data: bytes) -> Any:
    from tonetune.model.gguf_config import config_of
    from tonetune.model.gguf_header import read_header

    return config_of(read_header(_file("model.gguf", data)))


def _manifest(data: bytes) -> Any:
    from tonetune.model.artefact import Manifest

    return Manifest.read(_file("adapter/tonetune.json", data).parent)


def _bundle(data: bytes) -> Any:
    from tonetune.bundle import Bundle

    return Bundle.read(_file("bundle/tonetune.json", data).parent)


def _weights(data: bytes) -> Any:
    from tonetune.model.checkpoint import read_checkpoint

    return read_checkpoint(_file("weights/model.safetensors", data).parent)


def _index(data: bytes) -> Any:
    from tonetune.model.checkpoint import weight_map

    return weight_map(_file("sharded/model.safetensors.index.json", data).parent)


def _adapter(data: bytes) -> Any:
    from tonetune.model.artefact import read_tensors

    directory = _file("tensors/adapter_model.safetensors", data).parent
    return read_tensors(directory, expected_sha256=hashlib.sha256(data).hexdigest())


def _model_config(data: bytes) -> Any:
    from tonetune.model.families import text_config
    from tonetune.model.hub import read_config

    path = _file("model/config.json", data)
    config = read_config(path)
    return text_config({"model_type": "gemma3_text", **config}, where=str(path.parent))


def _tokenizer(data: bytes) -> Any:
    from tonetune.data.tokens import read_tokenizer

    return read_tokenizer(_file("tokenizer/tokenizer.json", data).parent)


def _peft(data: bytes) -> Any:
    from tonetune.model.peft_adapter import read_peft_config

    return read_peft_config(_file("peft/adapter_config.json", data))


def _annotations(data: bytes) -> Any:
    from tonetune.annotate.exchange import read_annotations

    return read_annotations(_file("export.json", data))


def _audit(data: bytes) -> Any:
    from tonetune.api.audit import audit

    return audit(_file("report.json", data))


def _stream(data: bytes) -> Any:
    from tonetune.api.files import rows_of_stream

    return rows_of_stream(data, plain=False)


def _run_record(data: bytes) -> Any:
    from tonetune.rundir import read_json, read_jsonl

    with contextlib.suppress(TonetuneError):
        read_json(_file("run.json", data))
    return read_jsonl(_file("metrics.jsonl", data))


TARGETS: dict[str, Callable[[bytes], Any]] = {
    **{f"rows{ending}": _table(ending) for ending in (".csv", ".tsv", ".txt", ".jsonl", ".json", ".xlsx", ".parquet")},
    "config": _config,
    "rules": _rules,
    "gguf": _gguf,
    "manifest": _manifest,
    "bundle": _bundle,
    "weights": _weights,
    "index": _index,
    "adapter": _adapter,
    "model config": _model_config,
    "tokenizer": _tokenizer,
    "peft": _peft,
    "annotations": _annotations,
    "audit": _audit,
    "stream": _stream,
    "run record": _run_record,
}

MANIFEST = {
    "base": "x", "revision": None, "base_fingerprint": "", "task": "single-label", "labels": LABELS,
    "label_sha256": hashlib.sha256(json.dumps(LABELS).encode()).hexdigest(), "language": "en", "template": "{text}",
    "words": None, "max_length": 40, "cleaning": [], "attention": "sdpa", "dtype": "float32", "load_gate": "off",
    "lora": {"rank": 4, "alpha": 8.0, "dropout": 0.1, "variant": "lora", "targets": ["model.layers.0.mlp.up_proj"]},
    "schema": 1,
}  # fmt: skip


def _small_tokenizer() -> bytes:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    tokenizer.normalizer = normalizers.Replace(" ", "b")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("b", "isolated")
    tokenizer.add_special_tokens(["<bos>"])
    return str(tokenizer.to_str()).encode()


def seeds() -> dict[str, list[bytes]]:
    """Sound inputs for some of the targets, which a fuzzer damages."""
    import io
    import struct

    import openpyxl
    import polars
    from safetensors.numpy import save

    rows = [{"text": f"a happy day {i}", "label": LABELS[i % 2]} for i in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    table = b"text,label\n" + b"".join(f'"so, {i}",{LABELS[i % 2]}\n'.encode() for i in range(6))
    book, sheet, parquet = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    for row in (("text", "label"), *(tuple(row.values()) for row in rows)):
        book.active.append(row)
    book.save(sheet)
    polars.DataFrame(rows).write_parquet(parquet)
    import numpy as np

    tensors = save({"model.embed_tokens.weight": np.zeros((4, 2), np.float32), "model.layers.0.x": np.zeros(2)})
    key = b"general.architecture"
    header = struct.pack("<IQQQ", 3, 0, 2, len(key)) + key + struct.pack("<IQ", 8, 6) + b"gemma3"
    header += struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 32)
    bundle = {k: v for k, v in MANIFEST.items() if k not in ("words", "attention", "lora")}
    bundle |= {"kind": "onnx", "bos_id": 2, "pad_id": 0, "temperature": 1.0, "base": {}, "files": {}}
    report = {"n": 10, "accuracy": 0.8, "confusion": [[4, 1], [1, 4]], "decimals": 2}
    task = [
        {
            "id": 1,
            "data": {"text": "a"},
            "annotations": [{"result": [{"type": "choices", "value": {"choices": ["x"]}}]}],
        }
    ]
    documents = {
        "manifest": MANIFEST,
        "bundle": bundle,
        "index": {"weight_map": {"a": "model-1.safetensors"}},
        "model config": {"model_type": "gemma3_text", "hidden_size": 32, "num_hidden_layers": 2, "head_dim": 16},
        "peft": {"peft_type": "LORA", "task_type": "SEQ_CLS", "base_model_name_or_path": "x", "r": 4, "lora_alpha": 8},
        "annotations": task,
        "audit": report,
        "run record": {"status": "finished", "step": 1},
    }
    return {
        **{name: [json.dumps(document).encode()] for name, document in documents.items()},
        "rows.csv": [table],
        "rows.tsv": [table.replace(b",", b"\t")],
        "rows.txt": [b"__label__joy happy\n__label__anger cross\n", b"joy: happy\nanger: cross\n" * 4],
        "rows.jsonl": [lines],
        "rows.json": [json.dumps(rows).encode(), json.dumps({"data": rows}).encode()],
        "rows.xlsx": [sheet.getvalue()],
        "rows.parquet": [parquet.getvalue()],
        "stream": [lines],
        "config": [b"model: {base: demo}\nlora:\n  rank: 8\ndata: {train: a.csv, rename: {a: b}}\n"],
        "rules": [b"functions:\n- {name: a, label: joy, regex: ha+}\n- {name: b, label: anger, words: [no]}\n"],
        "gguf": [b"GGUF" + header],
        "weights": [tensors],
        "adapter": [tensors],
        "tokenizer": [_small_tokenizer()],
    }
