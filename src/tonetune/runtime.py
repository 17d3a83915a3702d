"""A classifier to call, and those that run without torch: ONNX through onnxruntime, GGUF through llama.cpp."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tonetune.bundle import Bundle
from tonetune.data.cleaning import RULES, clean_turns
from tonetune.data.cut import cut
from tonetune.data.example import TURN_END
from tonetune.data.tokens import Encoded, TextTokenizer
from tonetune.errors import DataError, MissingExtraError, ModelError
from tonetune.evaluation.tasks import SINGLE_LABEL, Task, task_of
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.llamacpp import GGUF, LABEL_IDS, load_llama
from tonetune.model.gguf_header import read_header

# N = texts, B = texts of a micro-batch, T = tokens of the longest, C = labels

GRAPH = "model.onnx"
WINDOW = 2048
"""Texts sorted by length together."""
BUDGET_TOKENS, CALL_TOKENS = 1024, 48
"""Tokens of one call, and what a call costs beside them, in tokens: as on any CPU."""

Ids = Sequence[NDArray[np.int32]]
Heard = Callable[[int], None]


def unheard(texts: int) -> None:
    """Nobody wants to know how many more texts are scored."""


class Scorer(Protocol):
    """What scores token ids: `logits` gives shape (N, C), float32, in order; `done` hears how many more are scored."""

    @property
    def tokenizer(self) -> TextTokenizer: ...
    def logits(self, ids: Ids, *, done: Heard = unheard) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Prediction:
    """The most probable label of one text, its probability, and the probability of every label."""

    label: str
    confidence: float
    scores: dict[str, float]


@dataclass(frozen=True)
class MultiPrediction:
    """The labels of one text whose probability is above their threshold, none to all, and the probability of each.

    The confidence is the probability that the least sure of these decisions is right.
    """

    labels: list[str]
    confidence: float
    scores: dict[str, float]


def _predictions(rows: Sequence[Mapping[str, Any]]) -> list[Prediction] | list[MultiPrediction]:
    """The predictions in rows that `Task.rows` made."""
    if rows and "labels" in rows[0]:
        return [MultiPrediction(row["labels"], row["confidence"], row["scores"]) for row in rows]
    return [Prediction(row["label"], row["confidence"], row["scores"]) for row in rows]


@dataclass(frozen=True)
class TextClassifier:
    """A classifier as `load` returns it. `labels` gives the columns of every array.

    `thresholds` are the probabilities above which a text has a label; without them it has the most probable one.
    `cleaning` names the rules that texts were cleaned by in training. Raises ModelError for a rule that is not known.
    """

    scorer: Scorer
    label_set: LabelSet
    temperature: float
    cleaning: tuple[str, ...]
    thresholds: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if unknown := [rule for rule in self.cleaning if rule not in RULES]:
            raise ModelError(
                f"cleaning rules that this version lacks: {', '.join(unknown)}",
                where="cleaning",
                hint="use the tonetune that made it, or a newer one",
            )

    @property
    def task(self) -> Task:
        """How logits become probabilities and answers."""
        name = SINGLE_LABEL if self.thresholds is None else MULTI_LABEL
        return task_of(name, self.label_set, temperature=self.temperature, thresholds=self.thresholds)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.label_set.names

    @property
    def num_turns(self) -> int:
        """How many turns a text has, one a line."""
        return self.scorer.tokenizer.template.num_turns

    @overload
    def predict(self, texts: str) -> Prediction | MultiPrediction: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def predict(self, texts: Sequence[str]) -> list[Prediction] | list[MultiPrediction]: ...
    def predict(
        self, texts: str | Sequence[str]
    ) -> Prediction | MultiPrediction | list[Prediction] | list[MultiPrediction]:
        """A prediction for a text, a `MultiPrediction` where it may have several labels; of a list of texts a list.

        Raises DataError for an empty text, or one that is no text.
        """
        several = [texts] if isinstance(texts, str) else texts
        predictions = _predictions(self.task.rows(several, self.predict_proba(several)))
        return predictions[0] if isinstance(texts, str) else predictions

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Calibrated probabilities, shape (N, C), rows summing to 1; of a multi-label classifier each by itself."""
        return self.task.probs(self.logits(texts))

    def logits(self, texts: Sequence[str], *, done: Heard = unheard) -> NDArray[np.float32]:
        """Logits, shape (N, C), of texts cleaned as in training; `done` hears how many more texts are scored."""
        return self.scorer.logits(self.encode(texts).ids, done=done)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Token ids of texts cleaned as in training, and which of them were cut.

        Raises DataError for an empty text, or one that is no text.
        """
        cleaned = [self.cleaned(text, place=f"text {i}") for i, text in enumerate(texts)]
        return self.scorer.tokenizer.encode(cleaned)

    def cleaned(self, text: str, *, place: str) -> str:
        """The text as the model sees it. Raises DataError, naming `place`, where nothing is left of it.

        Raises it too for a text that has not as many turns, each a line, as the classifier was trained on.
        """
        if not isinstance(text, str):
            raise DataError(f"a text is expected, found {type(text).__name__}", where=place)
        num_found = text.count(TURN_END) + 1
        if self.num_turns > 1 and num_found != self.num_turns:
            what = f"a text of {self.num_turns} turns, one a line, is expected, found {num_found}"
            raise DataError(what, where=place, hint="name the columns of a file with --text, one for each turn")
        cleaned, _ = clean_turns(text, self.num_turns, self.cleaning)
        if not cleaned:
            raise DataError("the text is empty", where=place, hint="leave it out")
        return cleaned


@dataclass(frozen=True)
class OnnxScorer:
    """A graph from token ids to logits in an onnxruntime session, with the tokenizer of its bundle."""

    session: Any
    tokenizer: TextTokenizer

    def logits(self, ids: Ids, *, done: Heard = unheard) -> NDArray[np.float32]:
        """Logits, shape (N, C), in order; texts of similar length share a call."""
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        by_length = np.argsort(lengths, kind="stable")
        for begin in range(0, len(ids), WINDOW):
            window = by_length[begin : begin + WINDOW]
            for micro in cut(lengths[window], budget_tokens=BUDGET_TOKENS, call_tokens=CALL_TOKENS):
                rows = window[micro]
                parts.append((rows, self._call([ids[i] for i in rows])))
                done(len(rows))
        num_labels = self.session.get_outputs()[0].shape[1]
        logits_NC = np.zeros((len(ids), num_labels), dtype=np.float32)
        for rows, logits_BC in parts:
            logits_NC[rows] = logits_BC
        return logits_NC

    def _call(self, ids: Ids) -> NDArray[np.float32]:
        width = max(len(row) for row in ids)
        ids_BT = np.full((len(ids), width), self.tokenizer.pad_id, dtype=np.int64)
        mask_BT = np.zeros((len(ids), width), dtype=np.int64)
        for i, row in enumerate(ids):
            ids_BT[i, : len(row)] = row
            mask_BT[i, : len(row)] = 1
        (logits_BC,) = self.session.run(["logits"], {"input_ids": ids_BT, "attention_mask": mask_BT})
        return np.asarray(logits_BC, dtype=np.float32)


def load_onnx(path: str | Path, *, threads: int | None = None) -> TextClassifier:
    """The classifier of an exported ONNX bundle, on `threads` CPU threads (None: one per core).

    Raises ModelError where its files were changed or are of another kind, MissingExtraError without onnxruntime.
    """
    directory = Path(path).expanduser().resolve()
    bundle, tokenizer = _read_bundle(directory, "onnx")
    scorer = OnnxScorer(onnx_session(directory / GRAPH, threads=threads), tokenizer)
    return TextClassifier(scorer, LabelSet(bundle.labels), bundle.temperature, bundle.cleaning, bundle.thresholds)


def load_gguf(path: str | Path, *, threads: int | None = None) -> TextClassifier:
    """The classifier of an exported GGUF bundle in llama.cpp, on `threads` CPU threads (None: one per core).

    Raises ModelError where its files were changed or are of another kind, MissingExtraError without llama-cpp-python.
    """
    directory = Path(path).expanduser().resolve()
    bundle, tokenizer = _read_bundle(directory, "gguf")
    file = directory / GGUF
    scorer = load_llama(file, tokenizer, read_header(file).metadata[LABEL_IDS], threads=threads)
    return TextClassifier(scorer, LabelSet(bundle.labels), bundle.temperature, bundle.cleaning, bundle.thresholds)


def _read_bundle(directory: Path, kind: str) -> tuple[Bundle, TextTokenizer]:
    bundle = Bundle.read(directory)
    if bundle.kind != kind:
        what = f"a bundle of kind {bundle.kind}, not {kind}"
        raise ModelError(what, where=str(directory), hint="tonetune.load reads it")
    return bundle, TextTokenizer.read(directory, **bundle.encoding)


def onnx_session(graph: Path, *, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU. Raises MissingExtraError without it, ModelError for a broken graph."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtraError("onnx", needed_for="ONNX bundles") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors have no common class but this
        raise ModelError(f"onnxruntime cannot read the graph: {str(error)[:200]}", where=str(graph)) from error
