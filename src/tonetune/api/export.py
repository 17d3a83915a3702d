"""Exports: files that others can run, which exist only where they give the classifier's own answers."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tonetune.bundle import Bundle
from tonetune.data.prepare import read_split
from tonetune.data.splits import TEST, VALIDATION
from tonetune.device.choose import call_tokens, choose_device
from tonetune.device.fit import USUAL_TOKENS
from tonetune.errors import GateError, UsageError
from tonetune.evaluation.predict import Scorer
from tonetune.export.onnx import quantize_int8, write_onnx
from tonetune.export.parity import LIMITS, measure_parity, require_parity
from tonetune.model.artefact import Loaded, load_artefact
from tonetune.model.merged import Merged, load_merged, merge, write_merged
from tonetune.progress import Reporter, default_reporter
from tonetune.report.bundle_card import write_bundle_card
from tonetune.rundir import RunDir, write_json, writing
from tonetune.runtime import GRAPH, load_onnx

ROWS = 1000
"""Held-out rows that an export is compared on, where there are as many."""
KEPT_ROWS = 200
"""Of these, rows whose ids and logits stay in the bundle, so that any later runtime can be checked."""
Logits = NDArray[np.float32]
Score = Callable[[list[NDArray[np.int32]], Callable[[int], None]], Logits]
PRECISIONS = {"merged": ("float32", "bfloat16"), "onnx": ("float32", "int8")}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Heldout:
    """Rows that were not trained on: token ids, true labels, and the classifier's logits in float32."""

    ids: list[NDArray[np.int32]]
    gold: NDArray[np.int64]
    logits: Logits

    def write(self, path: Path) -> None:
        """Write the first `KEPT_ROWS` as safetensors: ids one after the other, lengths, gold and logits."""
        ids, rows = self.ids[:KEPT_ROWS], slice(KEPT_ROWS)
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        tensors: dict[str, NDArray[Any]] = {
            "ids": np.concatenate(ids),
            "lengths": lengths,
            "gold": self.gold[rows],
            "logits": self.logits[rows],
        }
        with writing(path):
            save_file(tensors, path)


def export(
    run: str | Path,
    *,
    to: str,
    out: str | Path,
    precision: str = "float32",
    force: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Write a run's classifier to the new directory `out`, and return the document of `export --json`.

    `to` is merged or onnx. The written files are read back and compared with base and adapter in float32 on held-out
    rows. Raises GateError, keeping the report in the run's exports/ and removing `out`, where they do not agree;
    UsageError for a place that is taken; ModelError, DataError as `load` does. `force` exports a run of random weights.
    """
    reporter = reporter or default_reporter()
    if to not in PRECISIONS or precision not in PRECISIONS[to]:
        known = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in PRECISIONS.items())
        raise UsageError(f"{to} in {precision} is no export", where="--to", hint=known)
    source, target = RunDir.open(run), Path(out).expanduser().resolve()
    if target.exists():
        raise UsageError("it exists already", where=f"--out {target}", hint="name a new directory")
    reporter.say("loading base and adapter in float32")
    device = choose_device().value if to == "merged" else torch.device("cpu")
    loaded = load_artefact(source.adapter, device=device, dtype=torch.float32, say=reporter.say)
    if loaded.manifest.load_gate != "strict" and not force:
        raise GateError("the run's base was not proven (model.load_gate: off)", where=str(source.path), hint="--force")
    heldout = _held_out(source, loaded, device, reporter)
    kept = source.path / "exports" / f"{to}-{precision}.json"
    with _staged(target) as staging:
        merge(loaded.classifier)
        reporter.say(f"writing {to}, {precision}")
        score = WRITERS[to](staging, source.adapter, loaded, precision)
        with reporter.bar("comparing", len(heldout.ids)) as bar:
            found = score(heldout.ids, bar.advance)
        parity = measure_parity(heldout.logits, found, heldout.gold, LIMITS[precision])
        write_json(kept, parity.as_dict())
        require_parity(parity, kept=kept)
        write_json(staging / "parity.json", parity.as_dict())
        heldout.write(staging / "parity.safetensors")
        write_bundle_card(staging, Bundle.read(staging), parity.as_dict())
    reporter.say(f"{target}: {parity.agreement:.2%} of {parity.rows:,} held-out rows have the same label")
    return {"path": str(target), "parity": parity.as_dict()}


def _held_out(run: RunDir, loaded: Loaded, device: torch.device, reporter: Reporter) -> Heldout:
    """Test rows, and validation rows where there are fewer than `ROWS`, with the logits of base and adapter."""
    splits = [run.split(name) for name in (TEST, VALIDATION) if run.split(name).is_file()]
    rows = [example for path in splits for example in read_split(path)][:ROWS]
    ids = loaded.tokenizer.encode([example.text for example in rows]).ids
    gold = np.array([loaded.labels.index(example.label) for example in rows], dtype=np.int64)
    with reporter.bar("scoring", len(ids)) as bar:
        logits = _scorer(loaded, device).logits(ids, done=bar.advance)
    return Heldout(ids, gold, logits)


def _scorer(loaded: Loaded | Merged, device: torch.device) -> Scorer:
    budget = USUAL_TOKENS[device.type].value
    return Scorer(loaded.classifier, loaded.tokenizer, budget, call_tokens(device))


@contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """A directory beside `target` that takes its name when all went well, and is gone when not."""
    staging = target.with_name(f".{target.name}.partial")
    with writing(target):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    try:
        yield staging
        with writing(target):
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _merged(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> Score:
    """Write a merged bundle and read it back."""
    names = write_merged(staging, loaded, dtype=getattr(torch, precision))
    _seal(staging, "merged", adapter, loaded, precision, names)
    device = loaded.classifier.device
    scorer = _scorer(load_merged(staging, device=device), device)
    return lambda ids, done: scorer.logits(ids, done=done)


def _onnx(staging: Path, adapter: Path, loaded: Loaded, precision: str) -> Score:
    """Write an ONNX bundle and read it back with onnxruntime."""
    graph, manifest = staging / GRAPH, loaded.manifest
    metadata = {
        "labels": json.dumps(manifest.labels, ensure_ascii=False),
        "template": manifest.template,
        "temperature": repr(manifest.temperature),
        "max_length": str(manifest.max_length),
        "cleaning": json.dumps(manifest.cleaning),
        "padding": "right",
    }
    write_onnx(graph, loaded.classifier, max_length=manifest.max_length, metadata=metadata)
    if precision == "int8":
        wide = graph.with_name("float32.onnx")
        graph.rename(wide)
        quantize_int8(wide, graph)
        for left in (wide, graph.with_name(f"{GRAPH}.data")):
            left.unlink(missing_ok=True)
    _seal(staging, "onnx", adapter, loaded, precision, sorted(path.name for path in staging.iterdir()))
    scorer = load_onnx(staging).scorer
    return lambda ids, done: scorer.logits(ids, done=done)


WRITERS: dict[str, Callable[[Path, Path, Loaded, str], Score]] = {"merged": _merged, "onnx": _onnx}


def _seal(staging: Path, kind: str, adapter: Path, loaded: Loaded, precision: str, names: list[str]) -> None:
    """Add the tokenizer, and the manifest with every file's checksum."""
    for name in TOKENIZER_FILES:
        if (adapter / name).is_file():
            with writing(staging / name):
                shutil.copyfile(adapter / name, staging / name)
            names.append(name)
    manifest, base = loaded.manifest, loaded.base
    bundle = Bundle(
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
    bundle.write(staging, names)
