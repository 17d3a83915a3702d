"""What a probe measured, and what became of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["passed", "failed", "skipped", "crashed", "timeout"]


@dataclass(frozen=True)
class Measurement:
    """What a probe found: a number, the limit that it was held to, and whether that is well.

    `value` is None where no finite number came out. `facts` are further numbers by name.
    """

    passed: bool
    value: float | None
    limit: float | None
    detail: str
    facts: Mapping[str, float] = field(default_factory=dict)


class NothingToMeasure(Exception):
    """The machine lacks what the probe is about; the message says what."""


@dataclass(frozen=True)
class ProbeResult:
    """A probe's verdict. `advice` is None where there is nothing to do, `seconds` includes a child's start."""

    id: str
    title: str
    status: Status
    value: float | None
    limit: float | None
    advice: str | None
    detail: str
    seconds: float
    facts: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
