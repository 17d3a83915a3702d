"""The plots of the report as inline SVG, coloured by the page's own CSS variables so that light and dark both work.

Plots carry only our own words; label names and texts stay in HTML, where the browser's fonts have every script.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonetune.errors import MissingExtraError
from tonetune.report.results import Result, shown_metrics

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
    """The first two metrics of each method as dots on their 95 % intervals."""
    shown = [(result.key, result.name, result.metrics) for result in results if result.metrics is not None]
    with _style():
        figure = _figure(height_in=0.5 * len(shown) + 0.75)
        axes = figure.subplots()
        for (metric, label), shift, colour in zip(
            shown_metrics(shown[-1][2]), (0, 0.2), (ACCENT, SECOND), strict=False
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
    metrics: Sequence[tuple[str, str]],
    zero_shot: float | None,
    best_step: int | None,
) -> str:
    """Loss above, two metrics on validation, each key and title, below, over optimiser steps.

    `zero_shot` is the first of them before training.
    """
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
        for (key, title), colour in zip(metrics, (ACCENT, SECOND), strict=False):
            scores.plot(at, [v[key] for v in validations], "o-", color=colour, label=title)
        scores.set_ylabel("validation")
        scores.set_xlabel("step")
        if zero_shot is not None:
            scores.axhline(zero_shot, color=INK, linestyle="--", linewidth=1, label=f"zero-shot {metrics[0][1]}")
        for axes in (losses, scores):
            _legend(axes)
            if best_step is not None:
                axes.axvline(best_step, color=MUTED, linestyle=":", linewidth=1.2)
        return _svg(figure)


def gradient_plot(steps: Sequence[Mapping[str, Any]], *, clip: float) -> str:
    """Norm of the gradient before clipping over optimiser steps, on a logarithmic scale, with the limit of clipping."""
    with _style():
        figure = _figure(height_in=2.6)
        axes = figure.subplots()
        axes.plot([s["step"] for s in steps], [s["grad_norm"] for s in steps], color=ACCENT, linewidth=1)
        axes.axhline(clip, color=MUTED, linestyle="--", linewidth=1)
        _plain_log(axes)
        axes.set_xlabel("step")
        axes.set_ylabel("norm")
        return _svg(figure)


def weights_plot(weights: Mapping[str, Mapping[str, Any]]) -> str:
    """Histograms of trained weights by kind, before and after, as shares on a logarithmic scale.

    Each kind has the "edges" of its bins, and the counts "before" and "after".
    """
    with _style():
        from matplotlib.ticker import NullFormatter

        figure = _figure(height_in=1.6 * len(weights) + 0.5)
        rows = figure.subplots(len(weights), 1, squeeze=False)[:, 0]
        for axes, (name, part) in zip(rows, weights.items(), strict=True):
            for moment, colour in (("before", SECOND), ("after", ACCENT)):
                total = sum(part[moment])
                shares = [count / total for count in part[moment]]
                axes.stairs(shares, part["edges"], color=colour, label=moment, linewidth=1.3)
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_ylabel(name)
            if axes is rows[0]:
                _legend(axes)
        return _svg(figure)


Panel = tuple[str, dict[str, tuple[list[float], list[float]]]]
"""A quantity with its unit, and lines by name: minutes and values."""


def watch_panels(rows: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """What watch.jsonl says over time: memory at every step, and the device's own readings where it has any."""
    steps = [row for row in rows if "memory_mib" in row]
    samples = [row for row in rows if row.get("event") == "sample"]

    def line(rows: Sequence[Mapping[str, Any]], key: str, *, scale: float = 1.0) -> tuple[list[float], list[float]]:
        known = [row for row in rows if row.get(key) is not None]
        return [row["time_s"] / 60 for row in known], [row[key] * scale for row in known]

    panels: list[Panel] = [
        (
            "memory, GiB",
            {
                "this process, its peak so far": line(steps, "memory_mib", scale=1 / 1024),
                "in use, all processes": line(samples, "memory_used_mib", scale=1 / 1024),
            },
        ),
        ("utilisation, %", {"": line(samples, "utilization_percent")}),
        ("temperature, °C", {"": line(samples, "temperature_c")}),
        ("power, W", {"": line(samples, "power_w")}),
    ]
    drawn = [(name, {label: one for label, one in lines.items() if one[0]}) for name, lines in panels]
    return [(name, lines) for name, lines in drawn if lines]


def watch_plot(panels: Sequence[Panel]) -> str:
    """Each quantity of the watch over the minutes of the run, one above the other."""
    with _style():
        figure = _figure(height_in=1.5 * len(panels) + 0.9)
        rows = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (name, lines) in zip(rows, panels, strict=True):
            for colour, (label, (minutes, values)) in zip((ACCENT, SECOND), lines.items(), strict=False):
                mark = "o" if len(values) == 1 else None
                axes.plot(minutes, values, marker=mark, color=colour, linewidth=1.2, label=label)
            axes.set_ylabel(name)
            axes.set_ylim(bottom=0)
            if any(lines):
                _legend(axes)
        rows[-1].set_xlabel("minutes")
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


def _plain_log(axes: "Axes") -> None:
    """A logarithmic scale whose numbers are written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


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
