"""Writers of exports: each writes a classifier's files into a directory, reads them back, and scores with them."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune.bundle import Bundle
from tonetune.data.tokens import TextTokenizer
from tonetune.device.choose import call_tokens
from tonetune.device.fit import USUAL_TOKENS
from tonetune.evaluation.predict import Scorer
from tonetune.export.gguf import write_gguf
from tonetune.export.heldout import Heldout
from tonetune.export.onnx import write_onnx
from tonetune.export.onnx_weights import BITS, pack_onnx
from tonetune.llamacpp import GGUF, PACKED, load_llama, pack
from tonetune.model.artefact import MANIFEST, PEFT_CONFIG, TENSORS, Loaded, load_artefact
from tonetune.model.merged import Merged, load_merged, merge, write_merged
from tonetune.rundir import writing
from tonetune.runtime import GRAPH, load_onnx

# N = texts, C = labels

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
ADAPTER_FILES = (PEFT_CONFIG, TENSORS, "config.json", *TOKENIZER_FILES, MANIFEST)
Done = Callable[[int], None]


@dataclass(frozen=True)
class Found:
    """What an export makes of held-out rows: logits, shape (N, C), and the share of rows with the same ids."""

    logits: NDArray[np.float32]
    same_ids: float | None = None


Score = Callable[[Heldout, Done], Found]
"""Scores held-out rows with what was written."""


def scorer_of(loaded: Loaded | Merged, device: torch.device) -> Scorer:
    """What scores token ids with a classifier on its device."""
    return Scorer(loaded.classifier, loaded.tokenizer, USUAL_TOKENS[device.type].value, call_tokens(device))


def _scores(scorer: Any) -> Score:
    return lambda heldout, done: Found(scorer.logits(heldout.ids, done=done))


def write_adapter(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> tuple[Bundle, Score]:
    """Copy the adapter in PEFT's layout, the head in it, and read it back."""
    for name in ADAPTER_FILES:
        with writing(staging / name):
            shutil.copyfile(adapter / name, staging / name)
    device = loaded.classifier.device
    again = load_artefact(staging, device=device, dtype=torch.float32)
    return bundle_of(loaded, "adapter", precision), _scores(scorer_of(again, device))


def write_merged_bundle(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> tuple[Bundle, Score]:
    """Write a merged bundle and read it back."""
    merge(loaded.classifier)
    names = write_merged(staging, loaded, dtype=getattr(torch, precision))
    bundle = seal(staging, adapter, bundle_of(loaded, "merged", precision), names)
    device = loaded.classifier.device
    return bundle, _scores(scorer_of(load_merged(staging, device=device), device))


def write_onnx_bundle(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> tuple[Bundle, Score]:
    """Write an ONNX bundle and read it back with onnxruntime."""
    merge(loaded.classifier)
    graph, manifest = staging / GRAPH, loaded.manifest
    metadata = {
        "labels": json.dumps(manifest.labels, ensure_ascii=False),
        "template": manifest.template,
        "temperature": repr(manifest.temperature),
        "thresholds": json.dumps(manifest.thresholds, ensure_ascii=False),
        "max_length": str(manifest.max_length),
        "cleaning": json.dumps(manifest.cleaning),
        "padding": "right",
    }
    write_onnx(graph, loaded.classifier, max_length=manifest.max_length, metadata=metadata)
    if precision in BITS:
        pack_onnx(graph, bits=BITS[precision])
    names = sorted(path.name for path in staging.iterdir())
    bundle = seal(staging, adapter, bundle_of(loaded, "onnx", precision), names)
    return bundle, _scores(load_onnx(staging).scorer)


def write_gguf_bundle(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> tuple[Bundle, Score]:
    """Write a GGUF bundle and read it back with llama.cpp, texts by its own tokenizer."""
    merge(loaded.classifier)
    file, manifest = staging / GGUF, loaded.manifest
    head_ids, *others = loaded.tokenizer.around
    facts: dict[str, Any] = {
        "labels": list(manifest.labels),
        "task": manifest.task,
        "template": manifest.template,
        "head_ids": head_ids,
        "tail_ids": others[-1],
        "temperature": manifest.temperature,
        "max_length": manifest.max_length,
    }
    if manifest.thresholds:
        facts["thresholds"] = list(manifest.thresholds.values())
    wide = staging / "float16.gguf" if precision in PACKED else file
    label_ids = write_gguf(wide, loaded, precision="float16" if precision in PACKED else precision, facts=facts)
    if precision in PACKED:
        pack(wide, file, precision=precision)
        wide.unlink()
    bundle = seal(staging, adapter, bundle_of(loaded, "gguf", precision), [GGUF])
    scorer = load_llama(file, TextTokenizer.read(staging, **bundle.encoding), label_ids)

    def score(heldout: Heldout, done: Done) -> Found:
        ids = scorer.own_ids(heldout.texts)
        return Found(scorer.logits(ids, done=done), heldout.share_of_same(ids))

    return bundle, score


WRITERS: dict[str, Callable[[Path, Path, Loaded, str], tuple[Bundle, Score]]] = {
    "adapter": write_adapter,
    "merged": write_merged_bundle,
    "onnx": write_onnx_bundle,
    "gguf": write_gguf_bundle,
}


def bundle_of(loaded: Loaded, kind: str, precision: str) -> Bundle:
    """The manifest of an export of this classifier, without its files."""
    manifest, base = loaded.manifest, loaded.base
    return Bundle(
        kind=kind,
        task=manifest.task,
        labels=manifest.labels,
        label_sha256=manifest.label_sha256,
        language=manifest.language,
        template=manifest.template,
        max_length=manifest.max_length,
        cleaning=manifest.cleaning,
        bos_id=base.bos_id,
        pad_id=base.pad_id,
        temperature=manifest.temperature,
        thresholds=manifest.thresholds,
        dtype=precision,
        load_gate=manifest.load_gate,
        base={"name": manifest.base, "revision": manifest.revision, "fingerprint": manifest.base_fingerprint},
    )


def seal(staging: Path, adapter: Path, bundle: Bundle, names: list[str]) -> Bundle:
    """Add the tokenizer, and the manifest with every file's checksum; the bundle as it is read back."""
    for name in TOKENIZER_FILES:
        if (adapter / name).is_file():
            with writing(staging / name):
                shutil.copyfile(adapter / name, staging / name)
            names.append(name)
    bundle.write(staging, names)
    return Bundle.read(staging)
