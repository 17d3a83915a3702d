"""Can the reported numbers of a multi-label classifier be true together? Each label is a question of yes or no."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from tonetune.evaluation.audit import Finding, audit
from tonetune.evaluation.counts import SLACK, Range
from tonetune.evaluation.reported import PerLabel, Reported, Totals


@dataclass(frozen=True)
class Hits:
    """The least and the most texts of a label that have it, that get it rightly, and that get it."""

    gold: int
    right: Range
    given: Range

    def errors(self) -> Range:
        """Texts for which the label is missed or added."""
        low = self.gold + self.given[0] - 2 * self.right[1]
        return max(low, 0.0), self.gold + self.given[1] - 2 * self.right[0]


def audit_sets(reported: Reported) -> list[Finding]:
    """What cannot be true in a report of a multi-label classifier; none where no contradiction was found.

    The numbers of each label are held against each other as those of a classifier of two classes, the label and the
    rest; then macro-F1, micro-F1 and accuracy, the share of texts with exactly their labels, against those of all.
    """
    n = reported.n or reported.tuned.n
    findings: list[Finding] = []
    for label in reported.classes:
        part = reported.per_label.get(label, PerLabel())
        sizes = [size for size in (part.support, reported.class_counts.get(label)) if size is not None]
        if n is not None and sizes and max(sizes) > n:
            rule = "no more texts can have a label than there are"
            findings.append(Finding.of(f"support of {label}", max(sizes), (0, n), rule=rule, against=["n"]))
            continue
        findings += audit(_of_one_label(reported, label, part, n))
    return findings or [*_of_all(reported, n)]


def _of_one_label(reported: Reported, label: str, part: PerLabel, n: int | None) -> Reported:
    """The report on one label as that of two classes."""
    rest = f"not {label}"
    counts = {label: reported.class_counts[label]} if label in reported.class_counts else {}
    size = counts.get(label, part.support)
    if n is not None and size is not None:
        counts[rest] = n - size
    return Reported(n=n, labels=[label, rest], class_counts=counts, per_label={label: part}, decimals=reported.decimals)


def _of_all(reported: Reported, n: int | None) -> Iterator[Finding]:
    parts = [reported.per_label[label] for label in reported.classes if label in reported.per_label]
    if not parts or len(parts) < len(reported.classes):
        return
    f1 = [reported.interval(part.f1) for part in parts if part.f1 is not None]
    if len(f1) == len(parts):
        low, high = (float(sum(ends, Decimal())) / len(f1) for ends in zip(*f1, strict=True))
        rule = "macro-F1 is the mean F1 of the labels"
        yield from _outside(reported, "macro_f1", (low, high), rule=rule, against=["f1"])
    hits = [_hits(reported, part, n) for part in parts]
    known = [one for one in hits if one is not None]
    if len(known) < len(hits):
        return
    low, high = (sum(one.right[end] for one in known) for end in (0, 1))
    least, most = (sum(one.gold + one.given[end] for one in known) for end in (0, 1))
    if least:
        rule = "micro-F1 is twice the right labels over the true and the given ones"
        against = ["support", "recall", "precision"]
        yield from _outside(reported, "micro_f1", (2 * low / most, 2 * high / least), rule=rule, against=against)
    if n is not None:
        errors = [one.errors() for one in known]
        ends = max(0.0, 1 - sum(high for _, high in errors) / n), 1 - max(low for low, _ in errors) / n
        rule = "a text is right where every label is: no label may be wrong for more texts"
        yield from _outside(reported, "accuracy", ends, rule=rule, against=["support", "recall", "precision"])


def _hits(reported: Reported, part: PerLabel, n: int | None) -> Hits | None:
    """What the counts of a label, or its precision, recall and support, say; None where they leave all open."""
    if part.support is not None and part.true_positives is not None and part.false_positives is not None:
        right, given = part.true_positives, part.true_positives + part.false_positives
        return Hits(part.support, (right, right), (given, given))
    if part.support is None or part.recall is None or part.precision is None:
        return None
    ends = [part.support * min(max(float(end), 0.0), 1.0) for end in reported.interval(part.recall)]
    low, high = (float(end) for end in reported.interval(part.precision))
    if low > 0:
        return Hits(part.support, (ends[0], ends[1]), (ends[0] / high, ends[1] / low))
    return None if n is None else Hits(part.support, (ends[0], ends[1]), (0.0, float(n)))


def _outside(reported: Reported, key: str, ends: Range, *, rule: str, against: list[str]) -> Iterator[Finding]:
    """The number, at the top and in "tuned", where what it was rounded from lies outside the ends."""
    places: list[tuple[str, Totals]] = [(key, reported), (f"tuned.{key}", reported.tuned)]
    for name, totals in places:
        value = getattr(totals, key)
        if value is None:
            continue
        low, high = map(float, reported.interval(value))
        if high < ends[0] - SLACK or low > ends[1] + SLACK:
            yield Finding.of(name, value, ends, rule=rule, against=against)
