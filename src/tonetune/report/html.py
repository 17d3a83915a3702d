"""The HTML report: one self-contained page made from the files of a run directory alone."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonetune.errors import MissingExtraError
from tonetune.evaluation.history import history, steps_of
from tonetune.evaluation.mistakes import cues, cues_of
from tonetune.report import plots
from tonetune.report.adapted import adapted_rows
from tonetune.report.facts import RunFacts, events
from tonetune.report.results import Result, results
from tonetune.report.text import duration, percent, plain, tidy
from tonetune.rundir import RunDir, read_jsonl, whole_file
from tonetune.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

MISTAKES_SHOWN = 300
TEXT_SHOWN_CHARS = 400


def write_report(run: RunDir) -> Path:
    """Write report.html into the run and return its path.

    Raises MissingExtraError without the extra `report`, DataError or ConfigError for a damaged run, DiskError where the
    page cannot be written.
    """
    environment = _environment()
    facts = RunFacts.read(run)
    page = environment.get_template("report.html.j2").render(_context(run, facts))
    with whole_file(run.report) as file:
        file.write(page)
    return run.report


def _environment() -> "Environment":
    """Templates in which every value is text: HTML is escaped, control characters are spelled out."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("report", needed_for="the HTML report") from None

    def show(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("tonetune.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "decimals": lambda value: f"{value:.3f}",
        "count": lambda value: f"{value:,}",
        "percent": percent,
        "duration": duration,
        "tidy": tidy,
        "plain": plain,
    }
    return environment


def _context(run: RunDir, facts: RunFacts) -> dict[str, Any]:
    mistakes = _mistakes(run, facts.labels)
    compared: list[Result] = []
    if facts.baselines and facts.test:
        compared = results(facts.baselines, facts.test["tuned"])
    return {
        "facts": facts,
        "config_text": run.config.read_text(encoding="utf-8"),
        "results": compared,
        "headline": facts.headline,
        "svg": _plots(run, facts, compared),
        "mistakes": mistakes if mistakes is None else mistakes[:MISTAKES_SHOWN],
        "num_mistakes": len(mistakes or []),
        "filters": _filters((mistakes or [])[:MISTAKES_SHOWN], facts.labels),
        "history": history(steps_of(run.evaluation("validation"), until=facts.best["step"])) if facts.best else None,
        "half": _half(facts.test["abstention"]) if facts.test else None,
        "text_shown_chars": TEXT_SHOWN_CHARS,
        "adapted": adapted_rows(facts.adapters) if facts.adapters else [],
    }


def _plots(run: RunDir, facts: RunFacts, compared: list[Result]) -> dict[str, Any]:
    """SVG by name, for what the run has measured."""
    from markupsafe import Markup

    drawn = {}
    if compared:
        drawn["results"] = plots.results_plot(compared)
    steps = events(run.metrics, "step")
    if steps:
        zero_shot = facts.baselines["zero_shot"] if facts.baselines else None
        drawn["learning"] = plots.learning_plot(
            steps,
            events(run.metrics, "validation"),
            zero_shot_accuracy=zero_shot["accuracy"] if zero_shot else None,
            best_step=facts.best["step"] if facts.best else None,
        )
    if facts.test:
        before, after = facts.test["uncalibrated"]["reliability"], facts.test["reliability"]
        drawn["reliability"] = plots.reliability_plot(before, after)
        drawn["abstention"] = plots.abstention_plot(facts.test["abstention"])
    return {name: Markup(svg) for name, svg in drawn.items()}


def _mistakes(run: RunDir, labels: list[str]) -> list[dict[str, Any]] | None:
    """Wrong predictions on the test texts, the most confident first; None where the predictions were not kept.

    "classes" are the names by which the filters of the page find a row: its true and its predicted class, its cues.
    """
    path = run.evaluation("test") / "predictions.jsonl"
    if not path.exists():
        return None
    wrong = [row for row in read_jsonl(path) if row["label"] != row["gold"]]
    wrong.sort(key=lambda row: -row["confidence"])
    for row in wrong:
        true, predicted = labels.index(row["gold"]), labels.index(row["label"])
        row["classes"] = " ".join([f"t{true}", f"p{predicted}", *cues_of(row["text"])])
    return wrong


def _filters(shown: list[dict[str, Any]], labels: list[str]) -> dict[str, list[tuple[str, str, int]]]:
    """Value, name and number of rows of each choice of the three filters; choices without rows are left out."""
    count = Counter(name for row in shown for name in row["classes"].split())
    choices = {
        "true": [(f"t{i}", label) for i, label in enumerate(labels)],
        "taken": [(f"p{i}", label) for i, label in enumerate(labels)],
        "cue": [(cue, cue) for cue in cues()],
    }
    return {
        field: [(value, name, count[value]) for value, name in names if count[value]]
        for field, names in choices.items()
    }


def _half(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The point of the abstention curve that answers about half of the texts."""
    return min(points, key=lambda point: abs(point["coverage"] - 0.5))
