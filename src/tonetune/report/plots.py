"""The plots of the report as inline SVG, coloured by the page's own CSS variables so that light and dark both work.

Plots carry only our own words; label names and texts stay in HTML, where the browser's fonts have every script.
"""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tonetune.errors import MissingExtraError
from tonetune.report.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 5.0

# Colours that occur nowhere else, swapped for CSS variables in the finished SVG
INK, MUTED, LINE, ACCENT, SECOND = (f"#01010{i}" for i in range(5))
_VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", ACCENT: "accent", SECOND: "second"}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tonetune",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
}


def results_plot(results: Sequence[Result]) -> str:
    """Accuracy and macro-F1 of each method as dots on their 95 % intervals."""
    shown = [(result.key, result.name, result.metrics) for result in results if result.metrics is not None]
    with _style():
        figure = _figure(height_in=0.5 * len(shown) + 0.75)
        axes = figure.subplots()
        for metric, label, shift, colour in (
            ("accuracy", "accuracy", 0, ACCENT),
            ("macro_f1", "macro-F1", 0.2, SECOND),
        ):
            rows = [row + shift for row in range(len(shown))]
            low, high = zip(*(metrics[f"{metric}_ci95"] for _, _, metrics in shown), strict=True)
            axes.hlines(rows, low, high, color=colour)
            axes.plot([metrics[metric] for _, _, metrics in shown], rows, "o", color=colour, label=label)
        for row, (key, name, _) in enumerate(shown):
            weight = "bold" if key == "tuned" else "normal"
            axes.text(0.0, row - 0.22, name, transform=axes.get_yaxis_transform(), va="center", weight=weight)
        _legend(axes)
        axes.set_yticks([])
        axes.set_ylim(len(shown) - 0.5, -0.6)
        axes.set_xlim(right=1.0)
        axes.spines["left"].set_visible(False)
        return _svg(figure)


def learning_plot(
    steps: Sequence[dict[str, Any]],
    validations: Sequence[dict[str, Any]],
    *,
    zero_shot_accuracy: float | None,
    best_step: int | None,
) -> str:
    """Loss above, validation accuracy and macro-F1 below, over optimiser steps."""
    with _style():
        figure = _figure(height_in=4.6)
        losses, scores = figure.subplots(2, 1, sharex=True)
        losses.plot(
            [s["step"] for s in steps], [s["loss"] for s in steps], color=MUTED, linewidth=0.9, label="training"
        )
        at = [v["step"] for v in validations]
        losses.plot(at, [v["loss"] for v in validations], "o-", color=ACCENT, label="validation")
        losses.set_ylabel("loss")
        losses.set_ylim(bottom=0)
        scores.plot(at, [v["accuracy"] for v in validations], "o-", color=ACCENT, label="accuracy")
        scores.plot(at, [v["macro_f1"] for v in validations], "o-", color=SECOND, label="macro-F1")
        scores.set_ylabel("validation")
        scores.set_xlabel("step")
        if zero_shot_accuracy is not None:
            scores.axhline(zero_shot_accuracy, color=INK, linestyle="--", linewidth=1, label="zero-shot accuracy")
        for axes in (losses, scores):
            _legend(axes)
            if best_step is not None:
                axes.axvline(best_step, color=MUTED, linestyle=":", linewidth=1.2)
        return _svg(figure)


def reliability_plot(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> str:
    """Accuracy against mean confidence by bin, before and after the temperature; the dashed line is ideal.

    A dot's area is its share of the texts.
    """
    with _style():
        figure = _figure(height_in=4.4)
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1)
        for bins, colour, name in ((before, SECOND, "before"), (after, ACCENT, "after the temperature")):
            total = sum(b["count"] for b in bins)
            x, y = [b["confidence"] for b in bins], [b["accuracy"] for b in bins]
            axes.plot(x, y, color=colour, linewidth=1, label=name)
            axes.scatter(x, y, s=[20 + 300 * b["count"] / total for b in bins], color=colour, alpha=0.6, linewidths=0)
        _legend(axes)
        axes.set_xlabel("confidence")
        axes.set_ylabel("share correct")
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        return _svg(figure)


def abstention_plot(points: Sequence[dict[str, Any]]) -> str:
    """Accuracy of the answered texts against their share, with its interval as a band."""
    with _style():
        figure = _figure(height_in=3.2)
        axes = figure.subplots()
        coverage = [p["coverage"] for p in points]
        low, high = zip(*(p["accuracy_ci95"] for p in points), strict=True)
        axes.fill_between(coverage, low, high, color=ACCENT, alpha=0.2, linewidth=0)
        axes.plot(coverage, [p["accuracy"] for p in points], "o-", color=ACCENT)
        axes.set_xlabel("share of texts answered")
        axes.set_ylabel("accuracy")
        axes.set_xlim(0, 1.02)
        return _svg(figure)


def _style() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("report", needed_for="the HTML report") from None
    return matplotlib.rc_context(_STYLE)


def _figure(*, height_in: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def _legend(axes: "Axes") -> None:
    """Name the lines above the plot, in one row."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0, handlelength=1.4, columnspacing=1.2)


def _svg(figure: "Figure") -> str:
    """The figure as an SVG element for HTML: no prolog, no ids that two plots could share, CSS variables as colours."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return re.sub("#01010[0-4]", lambda match: f"var(--{_VARIABLES[match[0]]})", svg)
