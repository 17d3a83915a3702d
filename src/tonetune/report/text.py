"""Text of unknown origin and numbers, made fit to show: control characters visible, Markdown literal, units said."""

import re
from collections.abc import Mapping
from typing import Any

from tonetune.visible import visible

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~&-])")


def markdown(text: str) -> str:
    """The text on one line, with nothing left in it that Markdown or HTML would act on."""
    return _MARKDOWN.sub(r"\\\1", " ".join(visible(text).split()))


def duration(seconds: float) -> str:
    """Seconds as a person says them: 8.4 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s"
    return f"{minutes // 60} h {minutes % 60} min"


def percent(fraction: float) -> str:
    """A fraction as a percentage, 87.8 % with a space that does not break, rounded as `f"{fraction:.3f}"` rounds it."""
    return f"{100 * round(fraction, 3):.1f}\u00a0%"


def tidy(number: float) -> str:
    """A measured number to three digits where it is small, whole above 100: 0.123, 45.6, 1,234."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def plain(value: Any) -> str:
    """A value of a JSON document as a person reads it, without brackets and quotes."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(plain(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
