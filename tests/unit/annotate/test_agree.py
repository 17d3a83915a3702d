"""Agreement by published examples and by counting pairs; nothing an annotator said is lost."""

import itertools
import random

import numpy as np
import pytest

from tonetune.annotate.agree import Item, agreement, cohen_kappa, items_of, krippendorff_alpha, merged
from tonetune.annotate.exchange import Annotation
from tonetune.data.duplicates import text_key
from tonetune.errors import DataError

# Krippendorff (2011), section C: four observers, twelve units, five values; "." is missing. His nominal alpha is 0.743.
PUBLISHED = [
    "1 2 3 3 2 1 4 1 2 . . .".split(),
    "1 2 3 3 2 2 4 1 2 5 . 3".split(),
    ". 3 3 3 2 3 4 2 2 5 1 .".split(),
    "1 2 3 3 2 4 4 1 2 5 1 .".split(),
]


def counts(observers: list[list[str]]) -> np.ndarray:
    values = sorted({v for row in observers for v in row} - {"."})
    return np.array([[list(unit).count(v) for v in values] for unit in zip(*observers, strict=True)])


def alpha_by_pairs(counts_UC: np.ndarray) -> float:
    """1 less the share of unequal pairs within texts, each text's by 1 / (m - 1), over that among all labels."""
    units = [np.repeat(np.arange(len(unit)), unit) for unit in counts_UC if unit.sum() > 1]
    every = np.concatenate(units)
    within = sum(sum(a != b for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    among = sum(a != b for a, b in itertools.permutations(every, 2)) / (len(every) - 1)
    return float(1 - within / among)


def test_alpha_of_the_published_example() -> None:
    alpha = krippendorff_alpha(counts(PUBLISHED))
    assert alpha == pytest.approx(0.743, abs=5e-4) and alpha == pytest.approx(alpha_by_pairs(counts(PUBLISHED)))


@pytest.mark.parametrize("seed", range(5))
def test_alpha_counts_pairs(seed: int) -> None:
    rng = random.Random(seed)
    observers = [[rng.choice("aabc.") for _ in range(30)] for _ in range(rng.randrange(2, 5))]
    assert krippendorff_alpha(counts(observers)) == pytest.approx(alpha_by_pairs(counts(observers)))


def test_agreement_that_cannot_be_judged_is_none() -> None:
    assert krippendorff_alpha(np.array([[2, 0], [3, 0]])) is None
    assert krippendorff_alpha(np.array([[1, 0], [0, 1]])) is None
    assert cohen_kappa([("a", "a"), ("a", "a")]) is None and cohen_kappa([]) is None


def test_kappa_by_its_definition() -> None:
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    assert cohen_kappa(pairs) == pytest.approx((0.7 - (0.5 * 0.6 + 0.5 * 0.4)) / (1 - 0.5))


def said(annotator: str, *labels: str | None) -> list[Annotation]:
    return [Annotation(f"text {i}", label, annotator, f"a.csv:{i}") for i, label in enumerate(labels)]


def test_the_document_names_pairs_labels_and_disagreements() -> None:
    items = items_of([*said("ann", "joy", "sad", "joy", None, "sad"), *said("bob", "joy", "sad", "sad", "joy", None)])
    document = agreement(items)
    assert (document["annotators"], document["texts"], document["shared"]) == (["ann", "bob"], 5, 3)
    assert document["pairs"] == [
        {"annotators": ["ann", "bob"], "texts": 3, "agreement": 2 / 3, "kappa": document["kappa"]}
    ]
    assert document["per_label"].keys() == {"joy", "sad"} and document["per_label"]["sad"]["texts"] == 2
    assert document["per_label"]["joy"]["alpha"] == pytest.approx(document["alpha"])  # of two labels each is the other
    assert document["disagreements"] == [
        {"text": "text 2", "origin": "a.csv:2", "labels": {"ann": "joy", "bob": "sad"}}
    ]
    with pytest.raises(DataError, match="no text was labelled by two annotators; annotators: ann"):
        agreement(items_of(said("ann", "joy", "sad")))


def test_equal_texts_are_one_and_the_last_word_counts() -> None:
    annotations = [Annotation("A text", "joy", "ann", "1"), Annotation("a  TEXT", "sad", "ann", "2")]
    (item,) = items_of([*annotations, Annotation("a text", " joy ", "bob", "3")])
    assert item == Item("A text", "1", {"ann": "sad", "bob": "joy"})


def test_the_majority_is_merged_and_an_adjudicator_decides() -> None:
    three = [*said("a", "joy", "joy", "joy", "sad"), *said("b", "joy", "sad", "sad"), *said("c", "sad", "joy", "fear")]
    items = items_of(three)
    rows, left_open = merged(items, {})
    assert [(row["text"], row["label"]) for row in rows] == [("text 0", "joy"), ("text 1", "joy"), ("text 3", "sad")]
    assert [item.text for item in left_open] == ["text 2"] and rows[0]["votes"] == {"joy": 2, "sad": 1}
    rows, left_open = merged(items, {text_key("Text 2"): "fear", text_key("text 0"): "fear"})
    assert [row["label"] for row in rows] == ["fear", "joy", "fear", "sad"] and left_open == []
