"""A run, an adapter or an exported bundle becomes a classifier to call."""

from collections.abc import Sequence
from pathlib import Path

import torch

from tonetune.api.recorded import resume_line
from tonetune.bundle import MANIFEST, bundle_kind, manifest_document
from tonetune.data.template import TEXT_FIELD, Template
from tonetune.device.choose import call_tokens, choose_device, choose_dtype
from tonetune.device.fit import USUAL_TOKENS
from tonetune.device.memory import WHEN_SCORING, memory_errors
from tonetune.device.probes.record import known_results
from tonetune.errors import DataError, GateError, UsageError
from tonetune.evaluation.predict import Scorer
from tonetune.model.artefact import PEFT_CONFIG, Loaded, load_artefact
from tonetune.model.merged import Merged, load_merged
from tonetune.model.peft_adapter import CLEANING, PeftAdapter, load_peft
from tonetune.progress import Reporter, default_reporter
from tonetune.rundir import RunDir
from tonetune.runtime import TextClassifier, load_gguf, load_onnx


def load(path: str | Path, *, labels: Sequence[str] | None = None, reporter: Reporter | None = None) -> TextClassifier:
    """The classifier of a run directory, of an adapter directory taken from one, of an exported bundle, or of a
    directory that PEFT saved.

    It computes in the number format it was trained or exported in. PEFT saves neither that nor the labels: `labels`
    name the rows of its head, in order, where no config.json does; the number format is the device's best. Raises
    DataError where `path` is none of these, UsageError for `labels` of a classifier that knows its own, ModelError
    where files were changed, are not supported, or the base is not the one trained on.
    """
    directory, reporter = artefact_directory(path), reporter or default_reporter()
    if not (directory / MANIFEST).is_file():
        return _load_peft(directory, labels, reporter)
    if labels is not None:
        raise UsageError("the classifier knows its labels", where="labels", hint="leave them out")
    kind = bundle_kind(directory)
    if kind == "onnx":
        return load_onnx(directory)
    if kind == "gguf":
        return load_gguf(directory)
    device = choose_device().value
    with memory_errors("loading", hint=WHEN_SCORING):
        if kind:
            return _classifier(load_merged(directory, device=device), device)
        return _classifier(load_artefact(directory, device=device, say=reporter.say), device)


def _classifier(loaded: Loaded | Merged, device: torch.device) -> TextClassifier:
    manifest = loaded.manifest
    scorer, thresholds = _scorer(loaded, device), manifest.thresholds
    return TextClassifier(scorer, loaded.labels, manifest.temperature, manifest.cleaning, thresholds)


def _load_peft(directory: Path, labels: Sequence[str] | None, reporter: Reporter) -> TextClassifier:
    device = choose_device().value
    with memory_errors("loading", hint=WHEN_SCORING):
        loaded = load_peft(
            directory, labels=labels, device=device, dtype=choose_dtype("auto", device, known_results()).value
        )
    for note in loaded.notes:
        reporter.say(f"note: {note}")
    return TextClassifier(_scorer(loaded, device), loaded.labels, temperature=1.0, cleaning=CLEANING)


def _scorer(loaded: Loaded | Merged | PeftAdapter, device: torch.device) -> Scorer:
    budget = USUAL_TOKENS[device.type].value
    return Scorer(loaded.classifier, loaded.tokenizer, budget, call_tokens(device))


def load_proven(path: str | Path, *, force: bool) -> TextClassifier:
    """The classifier of `load`.

    Raises GateError, unless `force`, where the base was not proven when it was trained, and what `load` raises.
    """
    manifest = artefact_directory(path) / MANIFEST
    if not force and manifest.is_file() and manifest_document(manifest).get("load_gate") != "strict":
        raise GateError("the run's base was not proven (model.load_gate: off)", where=str(path), hint="--force")
    return load(path)


def num_turns_of(path: str | Path) -> int:
    """How many turns the texts of a classifier have, known without loading it. Raises what `load` raises."""
    manifest = artefact_directory(path) / MANIFEST
    source = manifest_document(manifest).get("template") if manifest.is_file() else None
    return Template.parse(str(source or TEXT_FIELD)).num_turns


def artefact_directory(path: str | Path) -> Path:
    """The adapter directory of a run, or `path` itself where it is one or a bundle. Raises DataError for neither."""
    directory = Path(path).expanduser().resolve()
    if any((directory / name).is_file() for name in (MANIFEST, PEFT_CONFIG)):
        return directory
    run = RunDir.open(path)
    if not (run.adapter / MANIFEST).is_file():
        raise DataError(
            "the run has no adapter: it was not trained to its end",
            where=str(run.path),
            hint=f"see its status in run.json; go on with: {resume_line(run.path)}",
        )
    return run.adapter
