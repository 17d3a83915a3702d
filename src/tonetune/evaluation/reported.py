"""Results as somebody reported them: the document that `audit` reads, and what rounding leaves open of each number."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from tonetune.errors import DataError

FLOAT_DIGITS = 9
"""Decimals that count of a number written in full: enough to tell counts of a hundred million texts apart."""

Interval = tuple[Decimal, Decimal]

HINT = "audit reads what evaluate --json prints, or any part of it; shares are fractions of 1"


class Part(BaseModel):
    """A part of a report: keys it does not know are left alone, as `evaluate` prints more than `audit` needs."""


class PerLabel(Part):
    precision: Decimal | None = None
    recall: Decimal | None = None
    f1: Decimal | None = None
    support: NonNegativeInt | None = None
    true_positives: NonNegativeInt | None = None
    false_positives: NonNegativeInt | None = None


class Totals(Part):
    n: PositiveInt | None = None
    accuracy: Decimal | None = None
    macro_f1: Decimal | None = None
    micro_f1: Decimal | None = None


class LearningRate(Part):
    step: PositiveInt
    lr: Decimal


class Schedule(Part):
    kind: str
    peak: Decimal
    warmup_steps: NonNegativeInt = 0
    total_steps: PositiveInt | None = None


class Reported(Totals):
    """Any subset of the numbers of a report; a Decimal keeps the digits that were written."""

    task: str | None = None
    labels: list[str] = []
    split: str = "test"
    tuned: Totals = Totals()
    mcc: Decimal | None = None
    class_counts: dict[str, NonNegativeInt] = {}
    per_label: dict[str, PerLabel] = {}
    confusion: list[list[Decimal | None]] = []
    chance_level: Decimal | None = None
    learning_rates: list[LearningRate] = []
    schedule: Schedule | None = None
    split_sizes: dict[str, Decimal] = {}
    decimals: NonNegativeInt | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any], *, where: str) -> "Reported":
        """The numbers of a document. Raises DataError, naming the keys, for one that is no report."""
        try:
            reported = cls.model_validate(document)
        except ValidationError as error:
            first, *more = error.errors(include_url=False)
            key = ".".join(map(str, first["loc"]))
            others = f" (and {len(more)} more)" if more else ""
            raise DataError(f"{key}: {first['msg'].lower()}{others}", where=where, hint=HINT) from None
        size = len(reported.confusion)
        if size and ({*map(len, reported.confusion)} != {size} or size != len(reported.classes)):
            what = (
                f"confusion: {size} rows for {len(reported.classes)} labels; it has a row and a column for each label"
            )
            raise DataError(what, where=where, hint=HINT)
        return reported

    @classmethod
    def read(cls, path: Path) -> "Reported":
        """The numbers of a JSON file, with their digits as written. Raises DataError for a file that is no report."""
        try:
            document = json.loads(path.read_bytes().decode("utf-8-sig"), parse_float=Decimal, parse_constant=_refuse)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"not a JSON document: {error}", where=str(path), hint=HINT) from error
        if not isinstance(document, dict):
            raise DataError("not a JSON object", where=str(path), hint=HINT)
        return cls.of(document, where=str(path))

    @property
    def classes(self) -> list[str]:
        """Every class that is named anywhere, in the order of the confusion matrix; numbered where none is named."""
        named = list(dict.fromkeys([*self.labels, *self.class_counts, *self.per_label]))
        return named or [f"class {i + 1}" for i in range(len(self.confusion))]

    @property
    def counted(self) -> bool:
        """Whether the confusion matrix counts texts; else its cells are shares of their row, None where unknown.

        Whole numbers are shares where every row adds up to 1, and there are not as many texts as rows.
        """
        if not all(cell is not None and cell == int(cell) for row in self.confusion for cell in row):
            return False
        shares = all(sum(row) == 1 for row in self.confusion)  # type: ignore[arg-type]
        return not shares or self.n == len(self.confusion)

    def class_sizes(self) -> dict[str, dict[str, int]]:
        """Texts of classes, by the number that says so."""
        counted = zip(self.classes, self.confusion, strict=True) if self.counted else ()
        supports = {label: part.support for label, part in self.per_label.items()}
        return {
            "confusion": {label: int(sum(cell or 0 for cell in row)) for label, row in counted},
            "class_counts": self.class_counts,
            "support": {label: support for label, support in supports.items() if support is not None},
        }

    def interval(self, value: Decimal) -> Interval:
        """What is rounded to `value` at `decimals`, or at the digits that were written."""
        return interval(value, self.decimals)


def interval(value: Decimal, digits: int | None = None) -> Interval:
    """The ends of what is rounded to `value`: half a unit of its last decimal on either side, both included."""
    exponent = value.as_tuple().exponent
    written = -exponent if isinstance(exponent, int) else 0
    half = Decimal(5).scaleb(-1 - min(written if digits is None else digits, FLOAT_DIGITS))
    return value - half, value + half


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
