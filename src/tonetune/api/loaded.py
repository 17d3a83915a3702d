"""A run, an adapter or an exported bundle becomes a classifier to call."""

from pathlib import Path

from tonetune.bundle import MANIFEST, bundle_kind
from tonetune.device.choose import call_tokens, choose_device, choose_micro_batch_tokens
from tonetune.device.memory import WHEN_SCORING, memory_errors
from tonetune.errors import DataError, ModelError
from tonetune.evaluation.predict import Scorer
from tonetune.model.artefact import load_artefact
from tonetune.model.merged import load_merged
from tonetune.rundir import RunDir
from tonetune.runtime import TextClassifier, load_onnx


def load(path: str | Path) -> TextClassifier:
    """The classifier of a run directory, of an adapter directory taken from one, or of an exported bundle.

    It computes in the number format it was trained or exported in. Raises DataError where `path` is none of these,
    ModelError where files were changed or the base is not the one trained on.
    """
    directory = Path(path).expanduser().resolve()
    if not (directory / MANIFEST).is_file():
        directory = _adapter_of(RunDir.open(path))
    kind = bundle_kind(directory)
    if kind == "onnx":
        return load_onnx(directory)
    if kind == "gguf":
        raise ModelError("a GGUF bundle runs in llama.cpp", where=str(directory), hint="its README says how")
    device = choose_device().value
    with memory_errors("loading", hint=WHEN_SCORING):
        loaded = load_merged(directory, device=device) if kind else load_artefact(directory, device=device)
    budget = choose_micro_batch_tokens("auto", device).value
    scorer = Scorer(loaded.classifier, loaded.tokenizer, budget, call_tokens(device))
    return TextClassifier(scorer, loaded.labels, loaded.manifest.temperature)


def _adapter_of(run: RunDir) -> Path:
    if not (run.adapter / MANIFEST).is_file():
        raise DataError(
            "the run has no adapter: it was not trained to its end",
            where=str(run.path),
            hint="see its status in run.json, and train again",
        )
    return run.adapter
