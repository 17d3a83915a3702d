"""The label set: names, order and hash, one for the whole life of a model."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from tonetune.errors import DataError, UnknownLabelError, listed

MULTI_LABEL = "multi-label"
"""The task in which a text has any number of labels; in the others, single-label and binary, it has one."""


@dataclass(frozen=True)
class LabelSet:
    """Distinct label names in their fixed order; column c of every logit and score array is `names[c]`.

    Raises DataError for a repeated or empty name.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            repeated = sorted(name for name, n in Counter(self.names).items() if n > 1)
            raise DataError(f"label names are repeated: {listed(map(repr, repeated))}", where="data.labels")
        if any(not name.strip() for name in self.names):
            raise DataError("a label name is empty", where="data.labels")

    @classmethod
    def from_values(cls, values: Iterable[str]) -> "LabelSet":
        """The distinct values, ordered by number where all are numbers, by code point otherwise.

        The order does not depend on the order of the rows.
        """
        distinct = set(values)
        return cls(tuple(sorted(distinct, key=_numeric_order) if all_numbers(distinct) else sorted(distinct)))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, label: str, *, origin: str | None = None) -> int:
        """Column of `label`. Raises UnknownLabelError, naming `origin`, for a label outside the set."""
        try:
            return self._index[label]
        except KeyError:
            raise UnknownLabelError(
                f"label {label!r} is not one of {listed(self.names)}",
                where=origin,
                hint="map it under data.rename or add it to data.labels",
            ) from None

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the names in order: equal hashes mean equal columns."""
        return hashlib.sha256(json.dumps(self.names, ensure_ascii=False).encode()).hexdigest()

    @property
    def numeric(self) -> bool:
        """Whether every name is a number, so that the names themselves say nothing to a language model."""
        return all_numbers(self.names)

    def as_dict(self) -> dict[str, object]:
        """The document `labels.json`."""
        return {"names": list(self.names), "sha256": self.hash}


def all_numbers(values: Collection[str]) -> bool:
    """Whether there are values and each is a finite number: "nan" and "inf" are words."""
    try:
        return bool(values) and all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return False


def _numeric_order(value: str) -> tuple[float, str]:
    return float(value), value
