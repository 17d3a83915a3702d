"""The HTML report: one self-contained page made from the files of a run directory alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonetune.errors import ConfigError, DataError, MissingExtraError
from tonetune.evaluation.predictions import said
from tonetune.report.facts import RunFacts
from tonetune.report.results import metric_title
from tonetune.report.sections import SECTIONS, filter_choices, in_words
from tonetune.report.text import duration, percent, plain, tidy
from tonetune.rundir import RunDir, whole_file
from tonetune.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class Report:
    """A report that was written, and what its run lacks of it, each gap a sentence."""

    path: Path
    missing: tuple[str, ...]


def write_report(run: RunDir) -> Report:
    """Write report.html into the run.

    A run of another version may lack what a section shows: that section is left out, and named among what is missing.
    Raises MissingExtraError without the extra `report`, DataError for a damaged document, DiskError where the page
    cannot be written.
    """
    environment = _environment()
    facts = RunFacts.read(run)
    sections, missing = [], []
    for name, (title, content) in SECTIONS.items():
        try:
            shown = content(facts)
            if shown is not None:
                sections.append(_rendered(environment, name, facts, shown))
        except (DataError, ConfigError) as gap:
            missing.append(f"{title}: {gap.where}: {gap.what}" if gap.where else f"{title}: {gap.what}")
    page = environment.get_template("report.html.j2").render(
        facts=facts,
        sections=sections,
        missing=missing,
        filters=filter_choices(facts),
        version=facts.record.get("versions", {}).get("tonetune"),
    )
    with whole_file(run.report) as file:
        file.write(page)
    return Report(run.report, tuple(missing))


def _rendered(environment: "Environment", name: str, facts: RunFacts, shown: dict[str, Any]) -> Any:
    """One section as HTML."""
    from markupsafe import Markup

    body = environment.get_template(f"sections/{name}.html.j2").render(facts=facts, **shown).strip()
    return Markup(body if body.startswith("<section") else f"<section>\n{body}\n</section>\n")


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
        "said": said,
        "in_words": in_words,
        "metric_title": metric_title,
    }
    return environment
