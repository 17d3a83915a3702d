"""Laws of the queue: answers in order and each to its own, together by budget, full, failed, dropped, closed."""

import threading

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from tonetune.serve.batching import Batcher
from tonetune.serve.problems import Refused


class Scorer:
    """Logits that tell a text by its first id; waits for `go` in each call."""

    def __init__(self):
        self.calls, self.go, self.begun = [], threading.Semaphore(0), threading.Semaphore(0)
        self.failures = []

    def __call__(self, ids):
        self.calls.append([int(row[0]) for row in ids])
        self.begun.release()
        assert self.go.acquire(timeout=20)
        if self.failures:
            raise self.failures.pop()
        return np.array([[row[0], -row[0]] for row in ids], dtype=np.float32)


def texts(*firsts, tokens=4):
    return [np.full(tokens, first, dtype=np.int32) for first in firsts]


@pytest.fixture
def scorer():
    return Scorer()


@pytest.fixture
def batcher(scorer):
    made = Batcher(scorer, batch_tokens=16, queue_texts=12)
    made.start()
    yield made
    scorer.go.release(1000)
    made.close()


def held(batcher, scorer):
    """A first request at which the scorer stands, so that what follows waits."""
    first = batcher.submit(texts(0))
    assert scorer.begun.acquire(timeout=20)
    return first


def test_what_waits_is_scored_together_by_budget_and_answered_apart(batcher, scorer):
    held(batcher, scorer)
    asked = [texts(1), texts(2, 3), texts(4, 5), texts(6)]
    futures = [batcher.submit(ids) for ids in asked]
    scorer.go.release(100)
    for ids, future in zip(asked, futures, strict=True):
        assert future.result(20)[:, 0].tolist() == [row[0] for row in ids]
    assert scorer.calls == [[0], [1, 2, 3, 4], [5, 6]]


def test_a_text_over_the_budget_stands_alone(batcher, scorer):
    held(batcher, scorer)
    futures = [batcher.submit(texts(1)), batcher.submit(texts(2, tokens=40)), batcher.submit(texts(3))]
    scorer.go.release(100)
    assert [future.result(20)[0, 0] for future in futures] == [1, 2, 3]
    assert scorer.calls == [[0], [1], [2], [3]]


def test_a_full_queue_refuses_and_says_when(batcher, scorer):
    held(batcher, scorer)
    batcher.submit(texts(*range(1, 12)))
    with pytest.raises(Refused) as refused:
        batcher.submit(texts(12, 13))
    assert refused.value.status == 429 and refused.value.retry_after_s >= 1
    batcher.submit(texts(12))
    assert batcher.queued_texts == 12


def test_a_cancelled_request_makes_room_and_is_not_scored(batcher, scorer):
    held(batcher, scorer)
    dropped = batcher.submit(texts(*range(1, 13)))
    assert dropped.cancel()
    assert batcher.queued_texts == 0
    kept = batcher.submit(texts(13))
    scorer.go.release(100)
    assert kept.result(20)[0, 0] == 13
    assert scorer.calls == [[0], [13]]


def test_a_request_cancelled_half_way_is_not_scored_to_its_end(batcher, scorer):
    dropped = batcher.submit(texts(*range(12)))
    assert scorer.begun.acquire(timeout=20)
    assert dropped.cancel()
    kept = batcher.submit(texts(99))
    scorer.go.release(100)
    assert kept.result(20)[0, 0] == 99
    assert scorer.calls == [[0, 1, 2, 3], [99]] and batcher.queued_texts == 0


def test_a_failure_reaches_those_who_asked_and_nobody_else(batcher, scorer):
    first = held(batcher, scorer)
    after = batcher.submit(texts(1))
    scorer.failures.append(ValueError("once"))
    scorer.go.release(100)
    with pytest.raises(ValueError, match="once"):
        first.result(20)
    assert after.result(20)[0, 0] == 1
    assert batcher.alive


def test_after_a_failure_the_rest_of_the_request_is_not_scored(batcher, scorer):
    scorer.failures.append(ValueError("once"))
    failed = batcher.submit(texts(*range(12)))
    assert scorer.begun.acquire(timeout=20)
    after = batcher.submit(texts(99))
    scorer.go.release(100)
    with pytest.raises(ValueError, match="once"):
        failed.result(20)
    assert after.result(20)[0, 0] == 99
    assert scorer.calls == [[0, 1, 2, 3], [99]] and batcher.queued_texts == 0


def test_closing_answers_what_was_accepted_and_takes_no_more(scorer):
    batcher = Batcher(scorer, batch_tokens=4, queue_texts=12)
    batcher.start()
    futures = [batcher.submit(texts(first)) for first in range(5)]
    scorer.go.release(100)
    batcher.close()
    assert [int(future.result(0)[0, 0]) for future in futures] == [0, 1, 2, 3, 4]
    assert not batcher.alive
    with pytest.raises(Refused) as refused:
        batcher.submit(texts(1))
    assert refused.value.status == 503


@pytest.mark.parametrize("seed", range(5))
def test_any_mix_of_requests_is_answered_in_its_own_order(seed):
    rng = np.random.default_rng(seed)
    calls = []

    def score(ids):
        calls.append(sum(len(row) for row in ids) if len(ids) > 1 else 0)
        return np.array([[row[0]] for row in ids], dtype=np.float32)

    batcher = Batcher(score, batch_tokens=30, queue_texts=10_000)
    asked = [[np.full(rng.integers(1, 40), rng.integers(1000)) for _ in range(rng.integers(1, 30))] for _ in range(40)]
    futures = [batcher.submit(ids) for ids in asked]
    batcher.start()
    batcher.close()
    for ids, future in zip(asked, futures, strict=True):
        assert future.result(0)[:, 0].tolist() == [row[0] for row in ids]
    assert max(calls) <= 30 and batcher.queued_texts == 0
