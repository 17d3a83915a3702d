"""A scikit-learn estimator: texts and labels in, the same training as `tonetune.train`, predictions out."""

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from tonetune.api.loaded import load
from tonetune.api.rows import refuse_keys_of_rows, refuse_unsupported, rules_of
from tonetune.api.train import train_prepared
from tonetune.config import RunConfig, load_config
from tonetune.data.example import Example
from tonetune.data.prepare import prepare_examples
from tonetune.data.splits import HELD_OUT, VALIDATION
from tonetune.errors import DataError, UsageError
from tonetune.labels import MULTI_LABEL
from tonetune.model.artefact import MANIFEST, TENSORS
from tonetune.progress import SILENT, default_reporter
from tonetune.rundir import RunDir
from tonetune.runtime import TextClassifier

# N = texts, C = labels

INDICATOR = "multilabel-indicator"
"""What scikit-learn calls a matrix of 0 and 1, a column for each label."""
KEYS = {
    "base": "model.base",
    "max_length": "data.max_length",
    "template": "prompt.template",
    "words": "prompt.words",
    "rank": "lora.rank",
    "alpha": "lora.alpha",
    "targets": "lora.targets",
    "epochs": "train.epochs",
    "batch": "train.batch",
    "learning_rate": "train.learning_rate",
    "random_state": "train.seed",
    "run_dir": "run.dir",
}
"""The config key that each parameter of the estimator sets."""


class LoraTextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """LoRA on a language model as a scikit-learn classifier of texts.

    `fit` keeps each text once, leaves contradictions out, holds `validation_fraction` of the rows of each class back
    (None: what a run holds back) to choose the best step and the temperature, and trains on all others. It sets no test
    rows aside and computes no baselines: comparing is what the caller's own split is for.

    `y` is one label a text, or for any number of them an indicator matrix of 0 and 1, shape (N, C), whose columns are
    named by those of a data frame, else from 0. Answers have the same form.

    The other parameters set config keys (see `KEYS`); None leaves the config's default. `config`, a file or a mapping
    as `tonetune.train` takes it, sets any other key but those that name rows. `words` maps labels to the words of the
    prompt. `random_state` is a seed, or a RandomState to draw one from. A run is kept below `run_dir`; without one
    nothing is left on disk. `verbose` shows progress in a terminal or notebook.

    Attributes: `classes_`, the labels as they were given in the order of the columns of `predict_proba`, shape (C,);
    `run_`, the directory of the run, None where it was not kept. A pickle carries the adapter, and needs the base
    where it is loaded.
    """

    def __init__(
        self,
        base: str | None = None,
        *,
        epochs: float | None = None,
        learning_rate: float | None = None,
        batch: int | None = None,
        rank: int | None = None,
        alpha: float | None = None,
        targets: str | Sequence[str] | None = None,
        max_length: int | None = None,
        template: str | None = None,
        words: Mapping[Any, str] | None = None,
        validation_fraction: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        config: str | Path | Mapping[str, Any] | None = None,
        run_dir: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.base = base
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch = batch
        self.rank = rank
        self.alpha = alpha
        self.targets = targets
        self.max_length = max_length
        self.template = template
        self.words = words
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.config = config
        self.run_dir = run_dir
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Sequence[str], y: ArrayLike) -> "LoraTextClassifier":
        """Train on N texts and their labels.

        Raises ConfigError for parameters, DataError (a ValueError) for rows that cannot be used, with "row i" for
        `X[i]`, and what `tonetune.train` raises.
        """
        texts, multi_label = _texts(X), _is_matrix(y)
        classes, named = _columns(y) if multi_label else _classes(y)
        check_consistent_length(texts, named)
        config = self._config()
        prepared = prepare_examples(
            [Example(text, labels, f"row {i}") for i, (text, labels) in enumerate(zip(texts, named, strict=True))],
            given={},
            groups={},
            labels=[str(label) for label in classes],
            rename={},
            task=MULTI_LABEL if multi_label else "auto",
            allow_leaks=False,
            rng=np.random.default_rng(config.train.seed),
            held_out={VALIDATION: self._validation_fraction()},
            rules=rules_of(config),
        )
        with contextlib.ExitStack() as until_trained:
            if self.run_dir is None:
                directory = until_trained.enter_context(tempfile.TemporaryDirectory(prefix="tonetune-"))
                config = config.with_values({"run.dir": directory})
            run = train_prepared(config, prepared, reporter=default_reporter() if self.verbose else SILENT)
            self._adapter = _Adapter.read(RunDir.open(run.path).adapter)
        self.classes_ = classes
        self._multi_label = multi_label
        self.run_ = None if self.run_dir is None else run.path
        return self

    def predict(self, X: Sequence[str]) -> NDArray[Any]:
        """The most probable label of each text, shape (N,), of the type of the labels in `fit`.

        Fitted on an indicator matrix, one of 0 and 1, shape (N, C), by the thresholds of the labels.
        """
        probs_NC = self.predict_proba(X)
        if self._multi_label:
            answers_NC: NDArray[Any] = self._adapter.classifier.task.answers(probs_NC).astype(np.int64)
            return answers_NC
        best_N = probs_NC.argmax(axis=1)
        labels_N: NDArray[Any] = self.classes_[best_N]
        return labels_N

    def predict_proba(self, X: Sequence[str]) -> NDArray[np.float64]:
        """Calibrated probabilities, shape (N, C), columns in the order of `classes_`, rows of one label summing to 1.

        Raises DataError for an empty text, or one that is no text.
        """
        check_is_fitted(self)
        return self._adapter.classifier.predict_proba(_texts(X))

    def _config(self) -> RunConfig:
        """The config of a run from the parameters. Raises ConfigError with every problem at once."""
        config = load_config(self.config)
        refuse_keys_of_rows(
            config, reason="an estimator takes its rows in fit and its place as run_dir", others=[KEYS["run_dir"]]
        )
        given = {key: getattr(self, name) for name, key in KEYS.items() if getattr(self, name) is not None}
        config = config.with_values({key: _plain(value) for key, value in given.items()})
        refuse_unsupported(config)
        return config

    def _validation_fraction(self) -> float:
        fraction = HELD_OUT[VALIDATION] if self.validation_fraction is None else self.validation_fraction
        if not 0.0 < fraction < 1.0:
            raise UsageError(
                f"found {fraction}, allowed: number, > 0, < 1", where="validation_fraction", hint="leave it out"
            )
        return fraction


@dataclass(frozen=True)
class _Adapter:
    """The files of a trained adapter that its predictions depend on; the classifier is loaded when it is first used."""

    files: dict[str, bytes]

    @classmethod
    def read(cls, directory: Path) -> "_Adapter":
        return cls({name: (directory / name).read_bytes() for name in (TENSORS, MANIFEST)})

    @cached_property
    def classifier(self) -> TextClassifier:
        with tempfile.TemporaryDirectory(prefix="tonetune-") as directory:
            for name, content in self.files.items():
                Path(directory, name).write_bytes(content)
            return load(directory)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Adapter, (self.files,)


def _texts(X: Any) -> list[str]:
    """The texts of a list, array or series. Raises DataError for anything else."""
    if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        found = "a single text" if isinstance(X, str) else f"an array of shape {X.shape}"
        raise DataError(f"a sequence of texts is expected, found {found}", hint="pass a list, or one column of a table")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"a text is expected, found {type(text).__name__}", where=f"row {i}")
    return texts


def _classes(y: ArrayLike) -> tuple[NDArray[Any], list[tuple[str, ...]]]:
    """The distinct labels of `y`, and the name of each text's own."""
    gold = _labels(y)
    return np.unique(gold), [(str(label),) for label in gold]


def _is_matrix(y: Any) -> bool:
    """Whether there is a column of 0 and 1 for each label."""
    return (issparse(y) or np.asarray(y).ndim == 2) and type_of_target(y) == INDICATOR


def _columns(y: Any) -> tuple[NDArray[Any], list[tuple[str, ...]]]:
    """The columns of an indicator matrix, and the names of those that are 1 for each text."""
    table = y.toarray() if issparse(y) else np.asarray(y)
    classes = np.asarray(getattr(y, "columns", np.arange(table.shape[1])))
    names = [str(name) for name in classes]
    return classes, [tuple(name for name, true in zip(names, row, strict=True) if true) for row in table]


def _labels(y: ArrayLike) -> NDArray[Any]:
    """Labels as an array of shape (N,). Raises ValueError, as scikit-learn does, where they are none of classes."""
    labels_N: NDArray[Any] = column_or_1d(y, warn=True)
    assert_all_finite(labels_N, input_name="y")
    check_classification_targets(labels_N)
    return labels_N


def _plain(value: Any) -> Any:
    """A parameter as a config holds it; a generator gives a seed, labels become names."""
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**32, dtype=np.int64))
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value
