"""Can these reported numbers be true together? Those that cannot are named, with what they contradict."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tonetune.evaluation.counts import INFEASIBLE, SLACK, Matrices, Range, Share
from tonetune.evaluation.reported import PerLabel, Reported
from tonetune.evaluation.tally import Tally


@dataclass(frozen=True)
class Finding:
    """A number that cannot be true beside others.

    `numbers` names it and then those that it contradicts, `rule` what ties them together; `consistent` are the ends
    of what the others leave for it, and `what` says all of this in a sentence.
    """

    numbers: list[str]
    reported: float
    rule: str
    consistent: list[float]
    what: str

    @classmethod
    def of(cls, name: str, value: Decimal | int, ends: Range, *, rule: str, against: Sequence[str] = ()) -> "Finding":
        low, high = (_shortened(end, apart_from=float(value)) for end in ends)
        digits = min(max(len(Decimal(value).as_tuple().digits), 3), 4)
        middle = f"{sum(ends) / 2:.{digits}g}"
        consistent = f"{middle} (between {low:.9g} and {high:.9g})" if low < high else f"{low:.9g}"
        beside = f" beside {', '.join(against)}" if against else ""
        what = f"{name} cannot be {value}{beside}: {rule}; consistent would be {consistent}"
        return cls([name, *against], float(value), rule, [low, high], what)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _shortened(number: float, *, apart_from: float) -> float:
    """The number to four digits, or to as many as show that it is another."""
    return next((short for digits in range(4, 17) if (short := float(f"{number:.{digits}g}")) != apart_from), number)


def audit(reported: Reported) -> list[Finding]:
    """What cannot be true in a report of a single-label classifier; none where no contradiction was found.

    Numbers are taken one by one: sizes first, then the confusion matrix, recall, accuracy, precision and F1. Each must
    fit those before it; one that does not is named and left out of what follows.
    """
    work = _Audit(reported)
    for check in (work.sizes, work.splits, work.shares, work.means, work.whole_numbers, work.chance):
        check()
    return work.findings


class _Audit:
    """One report, the confusion matrices that its numbers allow so far, and the contradictions found."""

    def __init__(self, reported: Reported) -> None:
        self.reported = reported
        self.findings: list[Finding] = []
        self.class_sizes = reported.class_sizes()
        self.labels = reported.classes
        known_K = np.array(reported.confusion, dtype=np.float64).ravel() if reported.counted else None
        self.matrices = Matrices(max(len(self.labels), 2), known_K)
        self.cells_CC = self.matrices.cells_CC
        self.accepted: list[Share] = []
        self.sizes_C: list[int] = []
        for source, sizes in self.class_sizes.items():
            if sizes and len(sizes) == len(self.labels):
                self.sizes_C = [sizes[label] for label in self.labels]
                self._accept_sizes(source)
                break
        self.num_texts = sum(self.sizes_C) or reported.n or reported.tuned.n

    def _accept_sizes(self, source: str) -> None:
        """Allow only matrices whose rows are in proportion to the sizes of the classes."""
        everything_K = self.matrices.sum_of(self.cells_CC) / max(sum(self.sizes_C), 1)
        for size, row in zip(self.sizes_C, self.cells_CC, strict=True):
            gap_K = self.matrices.sum_of(row) - size * everything_K
            self.matrices.accept(source, gap_K, -gap_K)

    def found(self, name: str, value: Decimal | int, ends: Range, *, rule: str, against: Sequence[str] = ()) -> None:
        self.findings.append(Finding.of(name, value, ends, rule=rule, against=against))

    def sizes(self) -> None:
        """Texts of each class, by every number that says so, and of all classes together."""
        trusted: dict[str, tuple[str, int]] = {}
        for source, sizes in self.class_sizes.items():
            for label, size in sizes.items():
                before, known = trusted.setdefault(label, (source, size))
                if size != known:
                    rule = "a class has one number of texts"
                    self.found(f"{source} of {label}", size, (known, known), rule=rule, against=[before])
        total, whole = sum(size for _, size in trusted.values()), 0 < len(trusted) == len(self.labels)
        for name, n in (("n", self.reported.n), ("tuned.n", self.reported.tuned.n)):
            if n is not None and (n < total or (whole and n > total)):
                against = list(dict.fromkeys(source for source, _ in trusted.values()))
                self.found(name, n, (total, total), rule="the texts of all classes add up to n", against=against)

    def splits(self) -> None:
        """Split sizes, in texts or in shares."""
        splits = self.reported.split_sizes
        if splits and all(size <= 1 for size in splits.values()):
            lows, highs = zip(*map(self.reported.interval, splits.values()), strict=True)
            if not sum(lows) <= 1 <= sum(highs):
                rule = "the shares of all splits add up to 1"
                self.found("the sum of split_sizes", sum(splits.values(), Decimal()), (1, 1), rule=rule)
        elif splits and self.num_texts is not None and self.num_texts not in splits.values():
            name = self.reported.split if self.reported.split in splits else next(iter(splits))
            rule, ends = "a split is evaluated on all of its texts", (self.num_texts, self.num_texts)
            self.found(f"split_sizes of {name}", splits[name], ends, rule=rule, against=["n"])

    def shares(self) -> None:
        """Every ratio beside the sizes of the classes and the ratios before it."""
        shares = list(self._shares())
        if self.matrices.fit(shares):
            for share in shares:
                self._accept(share)
            return
        for share in shares:
            ends = self.matrices.range(share)
            if ends is None or not share.outside(ends):
                self._accept(share)
                continue
            against = self.matrices.ties(share, ends)
            self.found(share.name, share.value, ends, rule=share.rule, against=against)

    def _accept(self, share: Share) -> None:
        self.accepted.append(share)
        if self.matrices.known_K is None:  # else it says nothing new
            self.matrices.accept(share.kind, *share.rows)

    def _shares(self) -> Iterator[Share]:
        """Every reported ratio, in the order in which they are believed."""
        reported, cells_CC, labels = self.reported, self.cells_CC, self.labels
        if reported.confusion and not reported.counted:
            for (c, j), cell in np.ndenumerate(cells_CC):
                name, rule = f"confusion of {labels[c]} as {labels[j]}", "the shares of a row add up to 1"
                yield from self._share("confusion", name, reported.confusion[c][j], cell, cells_CC[c], rule)
        parts = [(c, label, reported.per_label.get(label, PerLabel())) for c, label in enumerate(labels)]
        rule = "recall is hits over the texts of the class"
        for c, label, part in parts:
            yield from self._share("recall", f"recall of {label}", part.recall, cells_CC[c, c], cells_CC[c], rule)
        rule = "accuracy is the mean recall, weighted by the sizes of the classes"
        for name, value in (("accuracy", reported.accuracy), ("tuned.accuracy", reported.tuned.accuracy)):
            yield from self._share("accuracy", name, value, cells_CC.diagonal(), cells_CC, rule)
        rule = "precision is hits over the texts given the label"
        for c, label, part in parts:
            name, column = f"precision of {label}", cells_CC[:, c]
            yield from self._share("precision", name, part.precision, cells_CC[c, c], column, rule)
        rule = "F1 is the harmonic mean of precision and recall"
        for c, label, part in parts:
            twice, both = np.repeat(cells_CC[c, c], 2), np.append(cells_CC[c], cells_CC[:, c])
            yield from self._share("f1", f"F1 of {label}", part.f1, twice, both, rule)

    def _share(self, kind: str, name: str, value: Decimal | None, top: Any, bottom: Any, rule: str) -> Iterator[Share]:
        """The share of the cells (positions) `top` among the cells `bottom`, if it was reported."""
        if value is not None:
            low, high = map(float, self.reported.interval(value))
            yield Share(kind, name, value, low, high, self.matrices.sum_of(top), self.matrices.sum_of(bottom), rule)

    def means(self) -> None:
        """Macro-F1, and of a known matrix MCC. F1 of a class without texts and answers is open: libraries differ."""
        given = [("macro_f1", self.reported.macro_f1), ("tuned.macro_f1", self.reported.tuned.macro_f1)]
        if self.labels and any(value is not None for _, value in given):
            f1 = [self.matrices.range(share) or (0.0, 1.0) for share in self._every_f1()]
            ends = sum(low for low, _ in f1) / len(f1), sum(high for _, high in f1) / len(f1)
            for name, value in given:
                self._mean(name, value, ends, rule="macro-F1 is the mean F1 of the classes")
        if self.matrices.known_K is not None:
            known = float(Tally.of_matrix(self.matrices.known_K.reshape(self.cells_CC.shape)).mcc)
            self._mean("mcc", self.reported.mcc, (known, known), rule="it follows from the confusion matrix")

    def _every_f1(self) -> Iterator[Share]:
        """F1 of each class, about which nothing is said."""
        for row, column, hits in zip(self.cells_CC, self.cells_CC.T, self.cells_CC.diagonal(), strict=True):
            top_K, bottom_K = 2 * self.matrices.sum_of(hits), self.matrices.sum_of(np.append(row, column))
            yield Share("f1", "", Decimal(), 0.0, 1.0, top_K, bottom_K, "")

    def _mean(self, name: str, value: Decimal | None, ends: Range, *, rule: str) -> None:
        if value is not None:
            low, high = map(float, self.reported.interval(value))
            if high < ends[0] - SLACK or low > ends[1] + SLACK:
                self.found(name, value, ends, rule=rule, against=list(self.matrices.facts))

    def whole_numbers(self) -> None:
        """Shares that fit each other, but no whole numbers of texts."""
        shares, num_texts = self.accepted, self.num_texts
        if num_texts is None or self.matrices.known_K is not None:
            return
        while not self._whole(shares):
            first = bisect_left(range(len(shares)), True, key=lambda end: not self._whole(shares[: end + 1]))
            if first == len(shares):  # the solver did not find it twice in its time
                return
            share, shares = shares[first], [*shares[:first], *shares[first + 1 :]]
            nearest = self.matrices.whole(shares[:first], self.sizes_C, num_texts, near=share)
            value = None if nearest.x is None else share.of(nearest.x[:-1])
            ends = (value, value) if value is not None else (share.low, share.high)
            against = ["n", *dict.fromkeys(other.kind for other in shares[:first])]
            rule = f"no whole numbers of {num_texts} texts give it"
            self.found(share.name, share.value, ends, rule=rule, against=against)

    def _whole(self, shares: Sequence[Share]) -> bool:
        """Whether some matrix of whole numbers may have these shares."""
        return bool(self.matrices.whole(shares, self.sizes_C, self.num_texts or 0).status != INFEASIBLE)

    def chance(self) -> None:
        """Chance level: one in C guessing at random, or by the sizes of the classes, or always the commonest."""
        value, num_classes = self.reported.chance_level, len(self.labels)
        if value is None or num_classes == 0:
            return
        shares_C = np.divide(self.sizes_C, max(sum(self.sizes_C), 1))
        levels = [1 / num_classes, *([shares_C @ shares_C, shares_C.max()] if self.sizes_C else [])]
        low, high = map(float, self.reported.interval(value))
        if not any(low - SLACK <= level <= high + SLACK for level in levels):
            rule = f"guessing among {num_classes} classes is right once in {num_classes}"
            self.found("chance_level", value, (levels[0], levels[0]), rule=rule, against=["the number of classes"])
