"""Laws of the analysis of mistakes: counts add up, a planted weakness is found, none is invented, abstaining pays."""

import numpy as np
import pytest

from tonetune.evaluation.mistakes import CONFIDENT_LISTED, abstention_curve, cues, cues_of, mistakes

LABELS = ("anger", "joy", "fear")


def invented(num_texts=400, *, right=0.8, seed=0):
    """True and predicted labels and a confidence that is worth something."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(3, size=num_texts)
    predicted = np.where(rng.random(num_texts) < right, gold, (gold + 1) % 3)
    confidence = np.clip(rng.normal(0.6, 0.15, num_texts) + 0.2 * (gold == predicted), 0.34, 1.0)
    return gold, predicted, confidence


def analysed(gold, predicted, confidence, *, texts=None, truncated=None):
    texts = texts or [f"text {i}" for i in range(len(gold))]
    truncated = np.zeros(len(gold), bool) if truncated is None else truncated
    return mistakes(texts, gold, predicted, confidence, truncated, LABELS)


def test_pairs_count_every_mistake_and_the_commonest_is_first():
    gold, predicted, confidence = invented()
    found = analysed(gold, predicted, confidence)
    counts = [pair["count"] for pair in found["pairs"]]
    assert sum(counts) == found["count"] == (gold != predicted).sum()
    assert counts == sorted(counts, reverse=True)
    assert sum(pair["share"] for pair in found["pairs"]) == pytest.approx(1)
    first = found["pairs"][0]
    assert first["count"] == ((gold == LABELS.index(first["gold"])) & (predicted == LABELS.index(first["label"]))).sum()
    assert any(f"{first['gold']} is taken for {first['label']}" in advice for advice in found["collect"])


def test_the_surest_mistakes_are_mistakes_in_order():
    gold, predicted, confidence = invented()
    found = analysed(gold, predicted, confidence)["confident"]
    assert len(found) == CONFIDENT_LISTED
    assert all(row["gold"] != row["label"] for row in found)
    told = [row["confidence"] for row in found]
    assert told == sorted(told, reverse=True) and told[0] == confidence[gold != predicted].max()


def test_lengths_part_the_texts_and_accuracies_average_to_the_whole():
    gold, predicted, confidence = invented()
    texts = ["x" * (i % 57 + 1) for i in range(len(gold))]
    slices = [s for s in analysed(gold, predicted, confidence, texts=texts)["slices"] if "characters" in s["name"]]
    assert len(slices) == 4 and sum(s["n"] for s in slices) == len(gold)
    assert sum(s["n"] * s["accuracy"] for s in slices) == pytest.approx((gold == predicted).sum())
    for part in slices:
        assert part["accuracy_ci95"][0] <= part["accuracy"] <= part["accuracy_ci95"][1]
        inside = np.array([int(part["name"].split()[0]) <= len(t) <= int(part["name"].split()[2]) for t in texts])
        assert part["accuracy_elsewhere"] == pytest.approx((gold == predicted)[~inside].mean())


def test_a_planted_weakness_is_found_and_none_is_invented():
    gold, predicted, confidence = invented()
    texts = ["我不喜欢" if i % 4 == 0 else "我喜欢的" for i in range(len(gold))]
    assert not any(part["weak"] for part in analysed(gold, predicted, confidence, texts=texts)["slices"])
    worse = np.where(np.arange(len(gold)) % 4 == 0, (gold + 1) % 3, predicted)
    found = analysed(gold, worse, confidence, texts=texts)
    assert [part["name"] for part in found["slices"] if part["weak"]] == ["cues of negation"]
    assert any("cues of negation: 0% of 100 are right" in advice for advice in found["collect"])


def test_truncated_texts_are_a_slice_where_there_are_any():
    gold, predicted, confidence = invented()
    names = [s["name"] for s in analysed(gold, predicted, confidence, truncated=np.arange(400) < 40)["slices"]]
    assert "cut to the length limit" in names
    assert "cut to the length limit" not in [s["name"] for s in analysed(gold, predicted, confidence)["slices"]]


def test_equally_long_texts_and_no_mistakes_are_no_trouble():
    gold = np.arange(30) % 3
    found = analysed(gold, gold, np.ones(30), texts=["same"] * 30)
    assert (found["count"], found["pairs"], found["confident"]) == (0, [], [])
    assert not any("characters" in part["name"] for part in found["slices"])
    assert sum("too few to tell" in advice for advice in found["collect"]) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I do not like it", ["negation"]),
        ("it DOESN’T work", ["negation"]),
        ("a notable northern novel", []),
        ("这个不好", ["negation"]),
        ("别这样", ["negation"]),
        ("不错，特别的好，别人也说好", []),
        ("Oh great, another delay #sarcasm", ["irony"]),
        ("呵呵，可真行", ["irony"]),
        ("so happy 😀", ["emoji"]),
        ("thanks :-)", ["emoji"]),
        ("[泪] 好累", ["emoji"]),
        ("see http://example.org at 10:30", []),
        ("没有 :( 呵呵", ["negation", "irony", "emoji"]),
    ],
)
def test_cues_are_found_in_both_languages(text, expected):
    assert cues_of(text) == expected


def test_there_are_cues_of_every_kind():
    assert list(cues()) == ["negation", "irony", "emoji"]


def test_abstaining_trades_coverage_for_accuracy():
    gold, predicted, confidence = invented(2000)
    right = gold == predicted
    points = abstention_curve(confidence, right)
    assert points[0]["coverage"] == 1.0 and points[0]["accuracy"] == pytest.approx(right.mean())
    assert [p["coverage"] for p in points] == sorted((p["coverage"] for p in points), reverse=True)
    assert points[-1]["accuracy"] > points[0]["accuracy"] + 0.05
    for point in points:  # what `predict --abstain` answers
        answered = confidence >= point["threshold"]
        assert (answered.mean(), right[answered].mean()) == (point["coverage"], point["accuracy"])
        assert point["accuracy_ci95"][0] <= point["accuracy"] <= point["accuracy_ci95"][1]


def test_equal_confidence_is_one_point():
    assert len(abstention_curve(np.full(10, 0.5), np.ones(10, bool))) == 1
    assert len(abstention_curve(np.array([0.9]), np.array([True]))) == 1
