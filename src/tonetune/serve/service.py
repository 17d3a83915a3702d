"""What the routes share: the models by name, the limits, the metrics."""

import time
from collections.abc import Mapping

from tonetune.errors import listed
from tonetune.runtime import TextClassifier
from tonetune.serve.limits import Limits
from tonetune.serve.metrics import Metrics
from tonetune.serve.models import Model
from tonetune.serve.problems import Refused


class Service:
    """Classifiers by name, each behind its queue; the first answers where none is named."""

    def __init__(self, classifiers: Mapping[str, TextClassifier], limits: Limits) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.created = int(time.time())
        self.models = [
            Model(name, classifier, limits=limits, metrics=self.metrics) for name, classifier in classifiers.items()
        ]

    def model(self, name: str | None) -> Model:
        """The model of that name, or the first. Raises Refused, 404, for a name that is none."""
        for model in self.models:
            if name in (model.name, None):
                return model
        known = listed(model.name for model in self.models)
        raise Refused(404, f"there is no model {name!r}", hint=f"one of {known}, or none for the first")

    def require_alive(self) -> None:
        """Raises Refused, 503, where a model's queue is not worked on."""
        if dead := [model.name for model in self.models if not model.batcher.alive]:
            raise Refused(503, f"no texts are scored by {listed(dead)}", hint="start the service again")

    def start(self) -> None:
        for model in self.models:
            model.batcher.start()

    def close(self) -> None:
        """Answer what was taken, and end."""
        for model in self.models:
            model.batcher.close()
