"""tonetune: labelled text and a Gemma-family model in, a tested classifier out. The public door; loads no torch."""

from typing import TYPE_CHECKING, Any

from tonetune.errors import TonetuneError

if TYPE_CHECKING:
    from tonetune.api.estimator import LoraTextClassifier
    from tonetune.api.evaluate import evaluate
    from tonetune.api.loaded import load
    from tonetune.api.train import Run, demo, train
    from tonetune.runtime import MultiPrediction, Prediction, TextClassifier

__version__ = "0.1.0"

__all__ = [
    "LoraTextClassifier",
    "MultiPrediction",
    "Prediction",
    "Run",
    "TextClassifier",
    "TonetuneError",
    "__version__",
    "demo",
    "evaluate",
    "load",
    "train",
]

_HOMES = {
    "LoraTextClassifier": "tonetune.api.estimator",
    "MultiPrediction": "tonetune.runtime",
    "Prediction": "tonetune.runtime",
    "Run": "tonetune.api.train",
    "TextClassifier": "tonetune.runtime",
    "demo": "tonetune.api.train",
    "evaluate": "tonetune.api.evaluate",
    "load": "tonetune.api.loaded",
    "train": "tonetune.api.train",
}


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is first asked for."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'tonetune' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
