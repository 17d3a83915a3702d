"""Requests of many clients scored together: a queue of texts, and one thread that takes them by a token budget."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tonetune.serve.problems import Refused

# N = texts of a request, C = labels

Ids = Sequence[NDArray[np.int32]]
Logits = NDArray[np.float32]


@dataclass(eq=False)
class Job:
    """The texts of one request. `taken` of them went to the scorer; `parts` are their logits, in order."""

    ids: Ids
    future: "Future[Logits]" = field(default_factory=Future)
    taken: int = 0
    parts: list[Logits] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        """Texts that did not go to the scorer yet."""
        return len(self.ids) - self.taken

    def take(self, room_tokens: int, *, at_least: int) -> Ids:
        """The next texts that have room together, and `at_least` as many."""
        ends = np.cumsum([len(ids) for ids in self.ids[self.taken :]])
        count = max(at_least, int(np.searchsorted(ends, room_tokens, side="right")))
        begin, self.taken = self.taken, self.taken + count
        return self.ids[begin : self.taken]


class Batcher:
    """Scores texts first come, first served, those of different requests together.

    `score` gives logits, shape (N, C), of token ids; it runs in the batcher's thread alone. `heard` is told texts and
    tokens of every batch.
    """

    def __init__(
        self,
        score: Callable[[Ids], Logits],
        *,
        batch_tokens: int,
        queue_texts: int,
        heard: Callable[[int, int], None] = lambda texts, tokens: None,
    ) -> None:
        self.queued_texts = 0
        self._score = score
        self._batch_tokens, self._queue_texts = batch_tokens, queue_texts
        self._heard = heard
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._texts_per_s = 1.0
        self._worker = threading.Thread(target=self._work, name="tonetune-batcher", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether texts are taken and scored."""
        return self._worker.is_alive() and not self._closed

    def start(self) -> None:
        self._worker.start()

    def close(self) -> None:
        """Take no more requests, answer those taken, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def submit(self, ids: Ids) -> "Future[Logits]":
        """Logits, shape (N, C), to come for token ids. A cancelled future is not scored further.

        Raises Refused: 429 where the queue has no room for all, 503 once closed.
        """
        job = Job(ids)
        with self._changed:
            if self._closed:
                raise Refused(503, "the service is stopping", hint="send it to another instance", retry_after_s=1)
            if self.queued_texts + len(ids) > self._queue_texts:
                what = f"{self.queued_texts:,} texts wait to be scored, of {self._queue_texts:,} at most"
                wait_s = max(1, math.ceil(self.queued_texts / self._texts_per_s))
                raise Refused(429, what, hint="send it again later", retry_after_s=wait_s)
            self.queued_texts += len(ids)
            self._jobs.append(job)
            self._changed.notify()
        job.future.add_done_callback(lambda future: self._drop(job) if future.cancelled() else None)
        return job.future

    def _drop(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self.queued_texts -= job.waiting

    def _work(self) -> None:
        while batch := self._take():
            ids = [row for _, part in batch for row in part]
            begun = time.perf_counter()
            try:
                logits_NC = self._score(ids)
            except Exception as error:  # whatever it is: who asked is told, and the next batch may do better
                for job, _ in batch:
                    self._fail(job, error)
                continue
            self._texts_per_s = len(ids) / (time.perf_counter() - begun)
            self._heard(len(ids), sum(len(row) for row in ids))
            for job, part in batch:
                job.parts.append(logits_NC[: len(part)])
                logits_NC = logits_NC[len(part) :]
                if not job.waiting and job.future.set_running_or_notify_cancel():
                    job.future.set_result(np.concatenate(job.parts))

    def _take(self) -> list[tuple[Job, Ids]]:
        """What is scored next, by request: as many texts as the budget holds, and at least one. Empty at the end."""
        batch: list[tuple[Job, Ids]] = []
        room_tokens = self._batch_tokens
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            while self._jobs:
                job = self._jobs[0]
                part = job.take(room_tokens, at_least=0 if batch else 1)
                if not part:
                    break
                batch.append((job, part))
                self.queued_texts -= len(part)
                room_tokens -= sum(len(row) for row in part)
                if job.waiting:
                    break
                self._jobs.popleft()
        return batch

    def _fail(self, job: Job, error: Exception) -> None:
        self._drop(job)
        if job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)
