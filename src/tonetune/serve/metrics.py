"""Prometheus metrics of one service."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TOKENS = tuple(2**power for power in range(4, 17))


class Metrics:
    """Counts of requests, of batches and of what was predicted, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "tonetune_requests", "requests by route and status", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "tonetune_request_seconds",
            "from a request's first byte to its answer",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._queue = Gauge("tonetune_queue_texts", "texts that wait to be scored", ["model"], registry=registry)
        self._texts = Counter("tonetune_texts", "texts scored", ["model"], registry=registry)
        self._tokens = Histogram(
            "tonetune_batch_tokens", "tokens scored together", ["model"], buckets=TOKENS, registry=registry
        )
        self._labels = Counter("tonetune_labels", "texts by predicted label", ["model", "label"], registry=registry)
        self._confidence = Summary(
            "tonetune_confidence",
            "probability of the predicted label: sum over count is the mean",
            ["model"],
            registry=registry,
        )

    def watch_queue(self, model: str, queued_texts: Callable[[], int]) -> None:
        self._queue.labels(model).set_function(queued_texts)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, model: str, texts: int, tokens: int) -> None:
        self._texts.labels(model).inc(texts)
        self._tokens.labels(model).observe(tokens)

    def predicted(self, model: str, given: Sequence[Sequence[str]], confidences: NDArray[np.float64]) -> None:
        """The labels of each text of a request, and how sure they are."""
        for labels, confidence in zip(given, confidences, strict=True):
            for label in labels:
                self._labels.labels(model, label).inc()
            self._confidence.labels(model).observe(confidence)

    def page(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
