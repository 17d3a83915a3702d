"""Do annotators agree? Cohen's kappa, Krippendorff's alpha, each label by itself, disagreements, one label a text."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.annotate.exchange import Annotation
from tonetune.data.duplicates import text_key
from tonetune.errors import DataError

# U = texts, C = labels

TRUSTED_ALPHA, TENTATIVE_ALPHA = 0.8, 0.667
"""Krippendorff, "Content Analysis", his limits for conclusions and for tentative ones."""


@dataclass
class Item:
    """A text with the label that each annotator gave it."""

    text: str
    origin: str
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def majority(self) -> str | None:
        """The label of more than half of the annotators."""
        if not self.labels:
            return None
        label, votes = Counter(self.labels.values()).most_common(1)[0]
        return label if 2 * votes > len(self.labels) else None


def items_of(annotations: Iterable[Annotation]) -> list[Item]:
    """The texts that somebody labelled, in order; equal texts are one. An annotator's last word on a text counts."""
    items: dict[str, Item] = {}
    for a in annotations:
        if a.label is not None:
            item = items.setdefault(text_key(a.text), Item(a.text, a.origin))
            item.labels[a.annotator] = a.label.strip()
    return list(items.values())


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two annotators beyond chance, 1 at most; None where both used one label only, or of no pair.

    Cohen, "A coefficient of agreement for nominal scales" (1960).
    """
    from sklearn.metrics import cohen_kappa_score

    if len({label for pair in pairs for label in pair}) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    return float(cohen_kappa_score(first, second))


def krippendorff_alpha(counts_UC: NDArray[np.int64]) -> float | None:
    """Krippendorff's alpha for nominal labels; `counts_UC` has how many annotators gave each text each label.

    1 is agreement, 0 what chance would give. Texts with fewer than two labels do not count. None where only one label
    was used. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C.
    """
    counts_UC = counts_UC[counts_UC.sum(axis=1) > 1]
    given_U, given_C = counts_UC.sum(axis=1), counts_UC.sum(axis=0)
    total = int(given_C.sum())
    by_chance = (total**2 - (given_C**2).sum()) / (total - 1) if total else 0.0
    if by_chance == 0:
        return None
    observed = ((given_U**2 - (counts_UC**2).sum(axis=1)) / (given_U - 1)).sum()
    return float(1 - observed / by_chance)


def agreement(items: Sequence[Item]) -> dict[str, Any]:
    """The document of `annotate agree --json`.

    "kappa" is that of the two annotators, or of more the mean over pairs; "alpha" takes all together and missing labels
    as they are. "per_label" has for each label the alpha of "this label or another". Raises DataError for fewer than
    two annotators, or no text that two of them labelled.
    """
    annotators = sorted({name for item in items for name in item.labels})
    shared = [item for item in items if len(item.labels) > 1]
    if not shared:
        raise DataError(
            f"no text was labelled by two annotators; annotators: {', '.join(annotators) or 'none'}",
            where="annotate agree",
            hint="name one file per annotator, with the same texts, or an export of Label Studio",
        )
    labels = sorted({label for item in items for label in item.labels.values()})
    counts_UC = np.array([[list(item.labels.values()).count(label) for label in labels] for item in shared])
    pairs = [_pair(shared, a, b) for a, b in itertools.combinations(annotators, 2)]
    alpha = krippendorff_alpha(counts_UC)
    kappas = [pair["kappa"] for pair in pairs if pair["kappa"] is not None]
    return {
        "annotators": annotators,
        "texts": len(items),
        "shared": len(shared),
        "kappa": float(np.mean(kappas)) if kappas else None,
        "alpha": alpha,
        "verdict": _verdict(alpha),
        "pairs": pairs,
        "per_label": {label: _label(counts_UC, c) for c, label in enumerate(labels)},
        "disagreements": [
            {"text": item.text, "origin": item.origin, "labels": item.labels}
            for item in shared
            if len(set(item.labels.values())) > 1
        ],
    }


def _verdict(alpha: float | None) -> str:
    if alpha is None:
        return "only one label was used, so agreement says nothing"
    if alpha >= TRUSTED_ALPHA:
        return "reliable"
    if alpha >= TENTATIVE_ALPHA:
        return "good enough for tentative conclusions"
    return "too low: make the guidelines clearer for the labels of low alpha, and label again"


def _pair(items: Sequence[Item], a: str, b: str) -> dict[str, Any]:
    both = [(item.labels[a], item.labels[b]) for item in items if a in item.labels and b in item.labels]
    agreed = sum(first == second for first, second in both) / len(both) if both else None
    return {"annotators": [a, b], "texts": len(both), "agreement": agreed, "kappa": cohen_kappa(both)}


def _label(counts_UC: NDArray[np.int64], c: int) -> dict[str, Any]:
    given_U = counts_UC[:, c]
    alpha = krippendorff_alpha(np.stack([given_U, counts_UC.sum(axis=1) - given_U], axis=1))
    return {"alpha": alpha, "texts": int((given_U > 0).sum())}


def merged(items: Sequence[Item], decided: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[Item]]:
    """One labelled row a text, and the texts left open.

    A text's label is that of `decided` (by `text_key`), where an adjudicator gave one, else that of more than half of
    its annotators.
    """
    rows, left_open = [], []
    for item in items:
        label = decided.get(text_key(item.text), item.majority)
        if label is None:
            left_open.append(item)
        else:
            votes = dict(Counter(item.labels.values()))
            rows.append({"text": item.text, "label": label, "origin": item.origin, "votes": votes})
    return rows, left_open
