"""Where a classifier errs: pairs of classes, kinds of text, what it is surest of and wrong, and what to collect next.

Array names carry their shape: N = texts, C = labels.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAIRS_LISTED = 10
CONFIDENT_LISTED = 20
FEW_TEXTS = 50
CLOSE_PAIR = 0.15
"""Share of all mistakes from which one pair of several classes is worth more texts."""
SURE = 0.95
SIGNIFICANT = 0.05
COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def mistakes(
    texts: Sequence[str],
    gold_N: Ints,
    predicted_N: Ints,
    confidence_N: Floats,
    truncated_N: Bools,
    labels: Sequence[str],
) -> dict[str, Any]:
    """The document "mistakes" of a report.

    "pairs": the most frequent (true, predicted) pairs with their count and share of all mistakes. "slices": accuracy
    by kind of text, each against the rest. "confident": the mistakes it is surest of. "collect": what to label next,
    in sentences.
    """
    wrong_N = gold_N != predicted_N
    pairs = _pairs(gold_N[wrong_N], predicted_N[wrong_N], labels)
    slices = [*slices_of(texts, ~wrong_N, truncated_N)]
    surest = [i for i in np.argsort(-confidence_N, kind="stable").tolist() if wrong_N[i]]
    confident = [
        {
            "text": texts[i],
            "gold": labels[gold_N[i]],
            "label": labels[predicted_N[i]],
            "confidence": float(confidence_N[i]),
        }
        for i in surest[:CONFIDENT_LISTED]
    ]
    support = dict(zip(labels, np.bincount(gold_N, minlength=len(labels)).tolist(), strict=True))
    num_sure = int((confidence_N[wrong_N] >= SURE).sum())
    collect = [*what_to_collect(pairs, slices, support, num_sure)]
    return {"count": int(wrong_N.sum()), "pairs": pairs, "slices": slices, "confident": confident, "collect": collect}


def _pairs(gold_M: Ints, predicted_M: Ints, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The commonest pairs among the M mistakes."""
    pairs_P2, counts_P = np.unique(np.stack([gold_M, predicted_M], axis=1), axis=0, return_counts=True)
    order = np.argsort(-counts_P, kind="stable")[:PAIRS_LISTED]
    return [
        {"gold": labels[g], "label": labels[p], "count": count, "share": count / len(gold_M)}
        for (g, p), count in zip(pairs_P2[order].tolist(), counts_P[order].tolist(), strict=True)
    ]


def slices_of(texts: Sequence[str], right_N: Bools, truncated_N: Bools) -> Iterator[dict[str, Any]]:
    """Each kind of text with its accuracy, by length in characters, truncation and cues.

    A slice is "weak" where it does worse than the rest by Fisher's exact test at 5 %, shared among the slices.
    """
    from scipy.stats import binomtest, fisher_exact

    found = {f"cues of {cue}": np.array([cue in cues_of(text) for text in texts]) for cue in cues()}
    if truncated_N.any():
        found["cut to the length limit"] = truncated_N
    found |= _by_length(np.array([len(text) for text in texts]))
    for name, inside_N in found.items():
        inside, outside = right_N[inside_N], right_N[~inside_N]
        if not (len(inside) and len(outside)):
            continue
        counts = [[int(part.sum()), int((~part).sum())] for part in (inside, outside)]
        interval = binomtest(counts[0][0], len(inside)).proportion_ci(0.95, method="wilson")
        p_value = float(fisher_exact(counts).pvalue)
        accuracy, elsewhere = float(inside.mean()), float(outside.mean())
        yield {
            "name": name,
            "n": len(inside),
            "accuracy": accuracy,
            "accuracy_ci95": [float(interval.low), float(interval.high)],
            "accuracy_elsewhere": elsewhere,
            "p_value": p_value,
            "weak": accuracy < elsewhere and p_value < SIGNIFICANT / len(found),
        }


def _by_length(length_N: Ints) -> dict[str, Bools]:
    """Quarters of the texts by length in characters; fewer where many texts are equally long."""
    edges = sorted({int(edge) for edge in np.quantile(length_N, (0.25, 0.5, 0.75), method="lower")})
    begins, ends = [0, *(edge + 1 for edge in edges)], [*edges, int(length_N.max())]
    return {
        f"{begin} to {end} characters": (length_N >= begin) & (length_N <= end)
        for begin, end in zip(begins, ends, strict=True)
    }


@cache
def cues() -> Mapping[str, re.Pattern[str]]:
    """A pattern for each slice of cues.tsv."""
    lines = files("tonetune.evaluation").joinpath("cues.tsv").read_text(encoding="utf-8").splitlines()
    patterns: dict[str, list[str]] = {}
    for name, pattern in (line.split("\t") for line in lines if not line.startswith("#")):
        patterns.setdefault(name, []).append(pattern)
    return {name: re.compile("|".join(parts), re.IGNORECASE) for name, parts in patterns.items()}


def cues_of(text: str) -> list[str]:
    """The slices whose cues a text has: of "negation", "irony" and "emoji"."""
    return [name for name, pattern in cues().items() if pattern.search(text)]


def what_to_collect(
    pairs: Sequence[Mapping[str, Any]], slices: Sequence[Mapping[str, Any]], support: Mapping[str, int], num_sure: int
) -> Iterator[str]:
    """What to label next, the most certain gain first; a pair without one of its labels is no pair."""
    for pair in pairs:
        one, other = pair["gold"], pair["label"]
        if pair["share"] >= CLOSE_PAIR and len(support) > 2 and one and other:
            seen = f"{one} is taken for {other} in {pair['count']}, {pair['share']:.0%} of all mistakes"
            yield f"texts of {one} and of {other}: {seen}"
    for part in slices:
        if part["weak"]:
            yield (
                f"texts {part['name']}: {part['accuracy']:.0%} of {part['n']} are right, "
                f"{part['accuracy_elsewhere']:.0%} elsewhere"
            )
    for label, count in support.items():
        if count < FEW_TEXTS:
            yield f"texts of {label}: there are {count} to test on, too few to tell how well it is found"
    if num_sure:
        yield f"better labels for the surest mistakes: {num_sure} have a confidence of {SURE:.0%} or more"


def abstention_curve(confidence_N: Floats, right_N: Bools) -> list[dict[str, Any]]:
    """What abstaining below a threshold of confidence gives: the share of texts still answered, and its accuracy.

    One point for each distinct threshold that leaves about 100, 95, 90, 80 … 10 % of the texts answered.
    """
    from scipy.stats import binomtest

    descending_N = np.sort(confidence_N)[::-1]
    last = [max(round(coverage * len(descending_N)), 1) - 1 for coverage in COVERAGES]
    points = []
    for threshold in sorted({float(descending_N[i]) for i in last}):
        answered = right_N[confidence_N >= threshold]
        interval = binomtest(int(answered.sum()), len(answered)).proportion_ci(0.95, method="wilson")
        points.append(
            {
                "threshold": threshold,
                "coverage": len(answered) / len(right_N),
                "accuracy": float(answered.mean()),
                "accuracy_ci95": [float(interval.low), float(interval.high)],
            }
        )
    return points
