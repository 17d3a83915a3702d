"""A classifier behind its queue, and the answer to a request."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tonetune.evaluation.metrics import argmax_labels
from tonetune.evaluation.tasks import Task
from tonetune.runtime import TextClassifier
from tonetune.serve.batching import Batcher, Logits
from tonetune.serve.limits import Limits
from tonetune.serve.metrics import Metrics
from tonetune.serve.problems import Refused

# N = texts of a request, C = labels


@dataclass(frozen=True)
class Answer:
    """What the model says of the texts of a request; `logits` have the shape (N, C)."""

    task: Task
    logits: Logits
    tokens: int

    @property
    def labels(self) -> tuple[str, ...]:
        return self.task.label_set.names

    @cached_property
    def raw(self) -> NDArray[np.float64]:
        """Logits over the temperature: their softmax, or each one's sigmoid, is calibrated."""
        return self.logits.astype(np.float64) / self.task.temperature

    @cached_property
    def probs(self) -> NDArray[np.float64]:
        """Calibrated probabilities, shape (N, C)."""
        return self.task.probs(self.logits)

    @cached_property
    def best(self) -> list[str]:
        """The most probable label of each text."""
        return [self.labels[best] for best in argmax_labels(self.raw)]

    @cached_property
    def given(self) -> list[list[str]]:
        """The labels that each text gets."""
        named = self.task.named(self.task.answers(self.probs))
        return [[said] if isinstance(said, str) else said for said in named]

    def ranked(self, scores_NC: NDArray[np.float64], top_k: int | None = None) -> list[list[dict[str, Any]]]:
        """Of each text labels with scores, the highest first."""
        order_NC = np.argsort(-scores_NC, axis=1, kind="stable")[:, :top_k]
        return [
            [{"label": self.labels[c], "score": float(scores_C[c])} for c in order_C]
            for scores_C, order_C in zip(scores_NC, order_NC, strict=True)
        ]


class Model:
    """A classifier by name."""

    def __init__(self, name: str, classifier: TextClassifier, *, limits: Limits, metrics: Metrics) -> None:
        self.name, self.classifier = name, classifier
        self.batcher = Batcher(
            classifier.scorer.logits,
            batch_tokens=limits.batch_tokens,
            queue_texts=limits.queue_texts,
            heard=lambda texts, tokens: metrics.batch(name, texts, tokens),
        )
        self._limits, self._metrics = limits, metrics
        metrics.watch_queue(name, lambda: self.batcher.queued_texts)

    async def answer(self, request: Request, texts: Sequence[str], *, whole: bool = False) -> Answer:
        """The answer to a request's texts, cleaned, cut and calibrated as `predict` does it.

        Raises Refused for too many, too long (where `whole`, also of tokens) or with a full queue; DataError for an
        empty text.
        """
        self._require_size(texts)
        encoded = await run_in_threadpool(self.classifier.encode, texts)
        if whole and encoded.truncated.any():
            longest = self.classifier.scorer.tokenizer.max_length
            raise Refused(413, f"a text takes more than {longest} tokens", hint="shorten it, or leave truncate out")
        logits_NC = await answered(request, self.batcher.submit(encoded.ids), timeout_s=self._limits.timeout_s)
        answer = Answer(self.classifier.task, logits_NC, int(encoded.lengths.sum()))
        self._metrics.predicted(self.name, answer.given, answer.task.confidence(answer.probs))
        request.state.log = {"model": self.name, "texts": len(texts), "tokens": answer.tokens}
        request.state.log_texts = {"inputs": texts, "labels": [", ".join(labels) for labels in answer.given]}
        return answer

    def _require_size(self, texts: Sequence[str]) -> None:
        limits = self._limits
        if len(texts) > limits.texts:
            what = f"{len(texts):,} texts in a request, at most {limits.texts:,} are allowed"
            raise Refused(413, what, hint="send them in several requests")
        if longest := max((len(text) for text in texts if len(text) > limits.characters), default=0):
            what = f"a text of {longest:,} characters, at most {limits.characters:,} are allowed"
            raise Refused(413, what, hint="send its beginning and its end")


async def answered(request: Request, future: "Future[Logits]", *, timeout_s: float) -> Logits:
    """The result of `future`. Raises Refused where it takes too long or the client is gone; then it is cancelled."""
    result, gone = asyncio.wrap_future(future), asyncio.ensure_future(_gone(request))
    either: set[asyncio.Future[Any]] = {result, gone}
    try:
        done, _ = await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not result.done():
            result.cancel()
    if result in done:
        return result.result()
    if gone in done:
        raise Refused(499, "the client is gone", hint="nobody reads this")
    what = f"not scored within {timeout_s:g} s"
    raise Refused(503, what, hint="send fewer texts at once, or send it again later", retry_after_s=1)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
