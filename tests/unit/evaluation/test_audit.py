"""Laws of the audit: what real matrices give is never doubted at any rounding, what cannot be is named."""

import json

import numpy as np
import pytest

from tonetune.evaluation.audit import audit
from tonetune.evaluation.reported import Reported
from tonetune.evaluation.tally import Tally

LABELS = [f"class {i}" for i in range(7)]


def found(document):
    return audit(Reported.of(document, where="test"))


def answers(rng, *, num_classes, num_texts):
    """True and predicted classes of uneven size, with every kind of mistake."""
    gold = rng.choice(num_classes, size=num_texts, p=rng.dirichlet(np.ones(num_classes) * 3))
    guess = rng.choice(num_classes, size=num_texts, p=rng.dirichlet(np.ones(num_classes)))
    return gold, np.where(rng.random(num_texts) < rng.uniform(0.3, 0.98), gold, guess)


def document(rng, *, digits, parts, num_texts=None):
    """What a program would report of a random classifier, rounded, in the parts that are asked for."""
    num_classes = int(rng.integers(2, 6))
    labels = LABELS[:num_classes]
    gold, predicted = answers(rng, num_classes=num_classes, num_texts=num_texts or int(rng.integers(30, 2000)))
    confusion = np.zeros((num_classes, num_classes), int)
    np.add.at(confusion, (gold, predicted), 1)
    hits, sizes, guesses = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    precision, recall = hits / np.maximum(guesses, 1), hits / np.maximum(sizes, 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    table = zip(precision.tolist(), recall.tolist(), f1.tolist(), sizes.tolist(), strict=True)
    every = {
        "n": len(gold),
        "class_counts": dict(zip(labels, sizes.tolist(), strict=True)),
        "accuracy": float((gold == predicted).mean()),
        "macro_f1": float(f1.mean()),
        "mcc": float(Tally.of_matrix(confusion).mcc),
        "per_label": {
            label: dict(zip(("precision", "recall", "f1", "support"), row, strict=True))
            for label, row in zip(labels, table, strict=True)
        },
        "confusion": confusion.tolist(),
        "shares": (confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)).tolist(),
    }
    chosen = rounded({part: every[part] for part in parts}, digits)
    if (shares := chosen.pop("shares", None)) and sizes.min() > 0:
        chosen["confusion"] = shares
    return {"labels": labels, "decimals": digits, **chosen}


def rounded(value, digits):
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) else value


PARTS = {
    "a table": ("n", "accuracy", "macro_f1", "per_label"),
    "all of it": ("n", "class_counts", "accuracy", "macro_f1", "mcc", "per_label", "confusion"),
    "shares of rows": ("class_counts", "accuracy", "macro_f1", "shares"),
    "no sizes": ("accuracy", "macro_f1", "shares"),
    "accuracy alone": ("n", "accuracy", "macro_f1"),
}


def believed(parts, *, cases, seed):
    rng = np.random.default_rng(seed)
    for case in range(cases):
        reported = document(rng, digits=int(rng.integers(1, 8)), parts=PARTS[parts])
        if case % 2:
            del reported["decimals"]
        assert found(reported) == [], json.dumps(reported)


@pytest.mark.parametrize("parts", PARTS)
def test_what_a_real_matrix_gives_is_never_doubted(parts):
    believed(parts, cases=4, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "cases"), [("all of it", 2000), ("a table", 60), ("shares of rows", 40)])
def test_what_thousands_of_real_matrices_give_is_never_doubted(parts, cases):
    believed(parts, cases=cases, seed=1)


def corrupted(reported, rng, *, digits):
    """The report with one digit of one of its numbers changed."""
    places = []

    def walk(value, path):
        if isinstance(value, (dict, list)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                walk(item, (*path, key))
        elif not isinstance(value, str) and path[0] != "decimals":
            places.append(path)

    walk(reported, ())
    *path, last = places[rng.integers(len(places))]
    changed = part = json.loads(json.dumps(reported))
    for key in path:
        part = part[key]
    text = f"{part[last]:.{digits}f}" if isinstance(part[last], float) else str(part[last])
    at = rng.choice([i for i, character in enumerate(text) if character.isdigit()])
    digit = rng.choice([d for d in "0123456789" if d != text[at]])
    part[last] = type(part[last])(text[:at] + digit + text[at + 1 :])
    return changed


@pytest.mark.parametrize("parts", ["all of it", pytest.param("a table", marks=pytest.mark.slow)])
def test_a_single_wrong_digit_is_mostly_caught(parts):
    rng = np.random.default_rng(2)
    cases = [corrupted(document(rng, digits=3, parts=PARTS[parts], num_texts=600), rng, digits=3) for _ in range(12)]
    assert np.mean([bool(found(case)) for case in cases]) >= 0.8


def test_accuracy_that_its_confusion_matrix_does_not_have():
    """Recalls of four balanced classes, whose mean is 0.792."""
    diagonal = (0.782, 0.821, 0.796, 0.769)
    confusion = [[value if i == j else None for j in range(4)] for i, value in enumerate(diagonal)]
    (finding,) = found({"labels": LABELS[:4], "class_counts": dict.fromkeys(LABELS[:4], 1000), "accuracy": 0.734,
                        "confusion": confusion})  # fmt: skip
    assert finding.numbers == ["accuracy", "class_counts", "confusion"]
    assert finding.consistent == [0.7915, 0.7925] and "0.792" in finding.what
    (without_sizes,) = found({"labels": LABELS[:4], "accuracy": 0.734, "confusion": confusion})
    assert without_sizes.consistent == [0.7685, 0.8215]


def test_precisions_that_recalls_and_sizes_rule_out():
    per_label = {"negative": {"precision": 0.73, "recall": 0.72}, "positive": {"precision": 0.74, "recall": 0.75}}
    findings = found({"n": 1200, "class_counts": {"negative": 600, "positive": 600}, "accuracy": 0.7342,
                      "per_label": per_label})  # fmt: skip
    assert [finding.numbers[0] for finding in findings] == ["precision of negative", "precision of positive"]
    low, high = findings[0].consistent
    possible = [  # every matrix with these recalls and this accuracy, counted out
        h0 / (h0 + 600 - h1)
        for h0 in range(429, 436)
        for h1 in range(447, 454)
        if 0.73415 <= (h0 + h1) / 1200 <= 0.73425
    ]
    assert low <= min(possible) and max(possible) <= high and low > 0.735


@pytest.mark.parametrize(("level", "counts", "possible"), [
    (0.594, None, False), (0.143, None, True), (0.14, None, True), (0.4, [40, *[10] * 6], True), (0.4, [10] * 7, False),
])  # fmt: skip
def test_chance_depends_on_the_number_of_classes(level, counts, possible):
    sizes = {"class_counts": dict(zip(LABELS, counts, strict=True))} if counts else {}
    findings = found({"labels": LABELS, "chance_level": level, **sizes})
    assert (findings == []) is possible
    assert possible or findings[0].consistent == [0.1429, 0.1429]


def test_whole_numbers_of_texts():
    (finding,) = found({"n": 10, "accuracy": 0.734})
    assert finding.consistent == [0.7, 0.7] and "10 texts" in finding.rule
    (close,) = found({"n": 1200, "accuracy": 0.7342, "decimals": 16})
    assert close.consistent == [0.73417, 0.73417] and close.what.endswith("consistent would be 0.73417")
    assert found({"n": 1000, "accuracy": 0.734}) == found({"accuracy": 0.734}) == []


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"n": 30}, ["n", "confusion"]),
        ({"tuned": {"n": 30}}, ["tuned.n", "confusion"]),
        ({"class_counts": {"a": 9, "b": 10}}, ["class_counts of a", "confusion"]),
        ({"per_label": {"b": {"support": 11}}}, ["support of b", "confusion"]),
        ({"split_sizes": {"train": 70, "validation": 15, "test": 15}}, ["split_sizes of test", "n"]),
        ({"split_sizes": {"train": 0.7, "test": 0.15}}, ["the sum of split_sizes"]),
        ({"tuned": {"accuracy": 0.9}}, ["tuned.accuracy", "confusion"]),
        ({"macro_f1": 0.81}, ["macro_f1", "confusion"]),
        ({"mcc": 0.61}, ["mcc", "confusion"]),
        ({"accuracy": 80.0}, ["accuracy", "confusion"]),
    ],
)
def test_each_number_is_held_against_the_others(changes, numbers):
    consistent = {"labels": ["a", "b"], "confusion": [[8, 2], [2, 8]], "accuracy": 0.8, "macro_f1": 0.8, "mcc": 0.6,
                  "n": 20, "split_sizes": {"train": 80, "test": 20}}  # fmt: skip
    assert found(consistent) == []
    assert numbers in [finding.numbers for finding in found({**consistent, **changes})]


def test_rounding_reaches_half_a_unit_and_no_further():
    def document(accuracy, **more):
        return {"labels": ["a", "b"], "confusion": [[5, 3], [0, 0]], "accuracy": accuracy, **more}

    for accuracy in (0.6, 0.62, 0.63, 0.625):  # 0.625 rounds to either neighbour
        assert found(document(accuracy)) == []
    assert found(document(0.6, decimals=2)) and found(document(0.61))


def test_every_finding_is_json():
    (finding,) = found({"n": 10, "accuracy": 0.734})
    assert json.loads(json.dumps(finding.as_dict()))["reported"] == 0.734
