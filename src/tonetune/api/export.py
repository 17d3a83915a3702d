"""Exports: files that others can run, which exist only where they give the classifier's own answers."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tonetune.api.bundles import WRITERS, scorer_of
from tonetune.data.prepare import read_split
from tonetune.data.splits import TEST, VALIDATION
from tonetune.device.choose import choose_device
from tonetune.errors import GateError, UsageError
from tonetune.evaluation.tasks import Task, task_of
from tonetune.export.heldout import Heldout
from tonetune.export.parity import limit_of, measure_parity, require_parity
from tonetune.llamacpp import require_llama
from tonetune.model.artefact import Loaded, load_artefact
from tonetune.progress import Reporter, default_reporter
from tonetune.report.bundle_card import write_bundle_card
from tonetune.rundir import RunDir, write_json, writing

ROWS = 1000
"""Held-out rows that an export is compared on, where there are as many."""
PRECISIONS = {
    "adapter": ("float32",),
    "merged": ("float32", "bfloat16"),
    "onnx": ("float32", "int8", "int4"),
    "gguf": ("float32", "float16", "q8_0", "q6_k", "q5_k_m", "q4_k_m"),
}


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

    `to` is adapter, merged, onnx or gguf. The written files are read back and compared with base and adapter in float32
    on held-out rows. Raises GateError, keeping the report in the run's exports/ and removing `out`, where they do not
    agree; UsageError for a place that is taken; MissingExtraError without the packages that read an export back;
    ModelError, DataError as `load` does. `force` exports a run of random weights.
    """
    reporter = reporter or default_reporter()
    if to not in PRECISIONS or precision not in PRECISIONS[to]:
        known = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in PRECISIONS.items())
        raise UsageError(f"{to} in {precision} is no export", where="--to", hint=known)
    source, target = RunDir.open(run), Path(out).expanduser().resolve()
    if target.exists():
        raise UsageError("it exists already", where=f"--out {target}", hint="name a new directory")
    if to == "gguf":
        require_llama()
    reporter.say("loading base and adapter in float32")
    device = choose_device().value if to in ("adapter", "merged") else torch.device("cpu")
    loaded = load_artefact(source.adapter, device=device, dtype=torch.float32, say=reporter.say)
    if loaded.manifest.load_gate != "strict" and not force:
        raise GateError("the run's base was not proven (model.load_gate: off)", where=str(source.path), hint="--force")
    heldout = held_out(source, loaded, device, reporter)
    kept = source.path / "exports" / f"{to}-{precision}.json"
    with _staged(target) as staging:
        reporter.say(f"writing {to}, {precision}")
        bundle, score = WRITERS[to](staging, source.adapter, loaded, precision)
        with reporter.bar("comparing", len(heldout.ids)) as bar:
            found = score(heldout, bar.advance)
        limit = limit_of(to, precision)
        parity = measure_parity(
            task_by(loaded), heldout.logits, found.logits, heldout.gold, limit, same_ids=found.same_ids
        )
        write_json(kept, parity.as_dict())
        require_parity(parity, kept=kept)
        write_json(staging / "parity.json", parity.as_dict())
        heldout.write(staging / "parity.safetensors")
        write_bundle_card(staging, bundle, parity.as_dict())
    reporter.say(f"{target}: {parity.agreement:.2%} of {parity.rows:,} held-out rows have the same label")
    return {"path": str(target), "parity": parity.as_dict()}


def held_out(run: RunDir, loaded: Loaded, device: torch.device, reporter: Reporter, *, rows: int = ROWS) -> Heldout:
    """Test rows, and validation rows where there are fewer than `rows`, with the logits of base and adapter."""
    splits = [run.split(name) for name in (TEST, VALIDATION) if run.split(name).is_file()]
    examples = [example for path in splits for example in read_split(path)][:rows]
    texts = [example.text for example in examples]
    ids = loaded.tokenizer.encode(texts).ids
    gold = task_by(loaded).gold(examples)
    with reporter.bar("scoring", len(ids)) as bar:
        logits = scorer_of(loaded, device).logits(ids, done=bar.advance)
    return Heldout(texts, ids, gold, logits)


def task_by(loaded: Loaded) -> Task:
    """What a loaded classifier decides, and how it is measured."""
    manifest = loaded.manifest
    return task_of(manifest.task, loaded.labels, temperature=manifest.temperature, thresholds=manifest.thresholds)


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
