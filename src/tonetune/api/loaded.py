"""A trained classifier to call: texts in, labels with confidence out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tonetune.data.cleaning import clean_text
from tonetune.device.choose import call_tokens, choose_device, choose_micro_batch_tokens
from tonetune.device.memory import WHEN_SCORING, memory_errors
from tonetune.errors import DataError
from tonetune.evaluation.calibration import softmax
from tonetune.evaluation.predict import Scorer
from tonetune.evaluation.predictions import prediction_rows
from tonetune.labels import LabelSet
from tonetune.model.artefact import MANIFEST, Manifest, load_artefact
from tonetune.rundir import RunDir

# N = texts, C = labels


@dataclass(frozen=True)
class Prediction:
    """The most probable label of one text, its probability, and the probability of every label."""

    label: str
    confidence: float
    scores: dict[str, float]


class TextClassifier:
    """A classifier as `load` returns it. `labels` gives the columns of every array."""

    def __init__(self, scorer: Scorer, labels: LabelSet, manifest: Manifest) -> None:
        self._scorer = scorer
        self.label_set = labels
        self.manifest = manifest

    @property
    def labels(self) -> tuple[str, ...]:
        return self.label_set.names

    @overload
    def predict(self, texts: str) -> Prediction: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def predict(self, texts: Sequence[str]) -> list[Prediction]: ...
    def predict(self, texts: str | Sequence[str]) -> Prediction | list[Prediction]:
        """A prediction for a text; for a list of texts a list, in order.

        Raises DataError for an empty text, or one that is no text.
        """
        several = [texts] if isinstance(texts, str) else texts
        rows = prediction_rows(several, self.predict_proba(several), self.labels)
        predictions = [Prediction(row["label"], row["confidence"], row["scores"]) for row in rows]
        return predictions[0] if isinstance(texts, str) else predictions

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Calibrated probabilities, shape (N, C), rows summing to 1."""
        return softmax(self.logits(texts), self.manifest.temperature)

    def logits(self, texts: Sequence[str], *, done: Callable[[int], None] = lambda texts: None) -> NDArray[np.float32]:
        """Logits, shape (N, C), of texts cleaned as in training; `done` hears how many more texts are scored."""
        cleaned = [self.cleaned(text, place=f"text {i}") for i, text in enumerate(texts)]
        store = self._scorer.store(self._scorer.tokenizer.encode(cleaned))
        with memory_errors("scoring", hint=WHEN_SCORING):
            return self._scorer.score(store, done=done)

    @staticmethod
    def cleaned(text: str, *, place: str) -> str:
        """The text as the model sees it. Raises DataError, naming `place`, where nothing is left of it."""
        if not isinstance(text, str):
            raise DataError(f"a text is expected, found {type(text).__name__}", where=place)
        cleaned, _ = clean_text(text)
        if not cleaned:
            raise DataError("the text is empty", where=place, hint="leave it out")
        return cleaned


def load(path: str | Path) -> TextClassifier:
    """The classifier of a run directory, or of an adapter directory taken from one.

    It computes in the number format it was trained in, so that its scores are those of the run.
    Raises DataError where `path` is neither, ModelError where files were changed or the base is not the one trained on.
    """
    directory = Path(path).expanduser().resolve()
    if not (directory / MANIFEST).is_file():
        directory = _adapter_of(RunDir.open(path))
    device = choose_device().value
    with memory_errors("loading", hint=WHEN_SCORING):
        loaded = load_artefact(directory, device=device)
    budget = choose_micro_batch_tokens("auto", device).value
    scorer = Scorer(loaded.classifier, loaded.tokenizer, budget, call_tokens(device))
    return TextClassifier(scorer, loaded.labels, loaded.manifest)


def _adapter_of(run: RunDir) -> Path:
    if not (run.adapter / MANIFEST).is_file():
        raise DataError(
            "the run has no adapter: it was not trained to its end",
            where=str(run.path),
            hint="see its status in run.json, and train again",
        )
    return run.adapter
