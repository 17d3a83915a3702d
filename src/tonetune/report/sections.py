"""The sections of the report: what each shows, from the files of a run. A section without its files is left out."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from tonetune.evaluation.history import history, steps_of
from tonetune.evaluation.mistakes import cues, cues_of
from tonetune.evaluation.predictions import said
from tonetune.report import plots
from tonetune.report.adapted import adapted_rows
from tonetune.report.facts import RunFacts
from tonetune.report.results import ONE_LABEL, SEVERAL_LABELS, results, shown_metrics

MISTAKES_SHOWN = 300
TEXT_SHOWN_CHARS = 400

Shown = dict[str, Any] | None
"""What a template is given beside the facts; None where the run has nothing to show."""


def _headline(facts: RunFacts) -> Shown:
    return {}


def _results(facts: RunFacts) -> Shown:
    if not (facts.baselines and facts.test):
        return None
    rows = results(facts.baselines, facts.test["tuned"])
    return {"results": rows, "metrics": shown_metrics(facts.test["tuned"]), "plot": plots.results_plot(rows)}


def _learning(facts: RunFacts) -> Shown:
    steps = facts.events("step")
    if not steps:
        return None
    zero_shot = facts.baselines.get("zero_shot") if facts.baselines else None
    metrics = (SEVERAL_LABELS if facts.multi_label else ONE_LABEL)[:2]
    plot = plots.learning_plot(
        steps,
        facts.events("validation"),
        metrics=metrics,
        zero_shot=zero_shot[metrics[0][0]] if zero_shot else None,
        best_step=facts.best["step"] if facts.best else None,
    )
    validations = facts.run.evaluation("validation")
    known = history(steps_of(validations, until=facts.best["step"])) if facts.best else None
    return {"plot": plot, "metrics": metrics, "history": known, "text_shown_chars": TEXT_SHOWN_CHARS}


def _gradient(facts: RunFacts) -> Shown:
    steps = facts.events("step")
    if not steps:
        return None
    clip = facts.config.train.clip
    clipped = sum(step["grad_norm"] > clip for step in steps)
    plot = plots.gradient_plot(steps, clip=clip)
    return {"plot": plot, "clipped": clipped, "steps": len(steps), "skipped": facts.events("skipped")}


def _classes(facts: RunFacts) -> Shown:
    return {} if facts.test and "confusion" in facts.test else None


def _multi(facts: RunFacts) -> Shown:
    return {} if facts.test and "thresholds" in facts.test else None


def _confidence(facts: RunFacts) -> Shown:
    if not facts.test:
        return None
    return {"plot": plots.reliability_plot(facts.test["uncalibrated"]["reliability"], facts.test["reliability"])}


def _abstention(facts: RunFacts) -> Shown:
    if not facts.test:
        return None
    points = facts.test["abstention"]
    half = min(points, key=lambda point: abs(point["coverage"] - 0.5))
    return {"plot": plots.abstention_plot(points), "half": half}


def _mistakes(facts: RunFacts) -> Shown:
    return {} if facts.test and facts.test["mistakes"]["pairs"] else None


def _browser(facts: RunFacts) -> Shown:
    """Wrong predictions on the test texts, the most confident first.

    "classes" are the names by which the filters of the page find a row: its true and its predicted class, its cues.
    """
    rows = facts.rows(facts.run.evaluation("test") / "predictions.jsonl")
    if not rows:
        return {"mistakes": None} if facts.test else None
    wrong = sorted((row for row in rows if said(row) != row["gold"]), key=lambda row: -row["confidence"])
    shown = wrong[:MISTAKES_SHOWN]
    for row in shown:
        true, predicted = ([facts.label_index[name] for name in _listed(part)] for part in (row["gold"], said(row)))
        row["classes"] = " ".join([*(f"t{i}" for i in true), *(f"p{i}" for i in predicted), *cues_of(row["text"])])
    count = Counter(name for row in shown for name in row["classes"].split())
    filters = {
        field: [(value, name, count[value]) for value, name in choices.items() if count[value]]
        for field, choices in filter_choices(facts).items()
    }
    return {
        "mistakes": shown,
        "num_mistakes": len(wrong),
        "num_texts": len(rows),
        "filters": filters,
        "text_shown_chars": TEXT_SHOWN_CHARS,
    }


def _listed(said: str | list[str]) -> list[str]:
    return [said] if isinstance(said, str) else said


def in_words(said: str | list[str] | None) -> str:
    """A label, several, or none, as a person reads it."""
    return "–" if said is None else ", ".join(_listed(said)) or "no label"


def filter_choices(facts: RunFacts) -> dict[str, dict[str, str]]:
    """Value and name of each choice of the three filters of the mistakes."""
    return {
        "true": {f"t{i}": label for i, label in enumerate(facts.labels)},
        "taken": {f"p{i}": label for i, label in enumerate(facts.labels)},
        "cue": {cue: cue for cue in cues()},
    }


def _data(facts: RunFacts) -> Shown:
    return {} if facts.data else None


def _prompt(facts: RunFacts) -> Shown:
    return {} if facts.prompt else None


def _adapters(facts: RunFacts) -> Shown:
    return {"adapted": adapted_rows(facts.adapters)} if facts.adapters else None


def _weights(facts: RunFacts) -> Shown:
    if not (facts.adapters and facts.train):
        return None
    return {"plot": plots.weights_plot(facts.adapters["weights"])}


def _time(facts: RunFacts) -> Shown:
    rows = facts.rows(facts.run.watch)
    panels = plots.watch_panels(rows)
    if not (facts.train or panels):
        return None
    caption = "Memory: the peak of this process at each step, and samples of what the device in use holds."
    if len(panels) > 1:
        caption += " Below, its other readings."
    return {"plot": plots.watch_plot(panels) if panels else None, "caption": caption}


def _environment(facts: RunFacts) -> Shown:
    return {} if facts.env else None


def _config(facts: RunFacts) -> Shown:
    path = facts.run.config
    return {"config_text": path.read_text(encoding="utf-8")} if path.exists() else None


SECTIONS: dict[str, tuple[str, Callable[[RunFacts], Shown]]] = {
    "headline": ("The headline", _headline),
    "results": ("Against the baselines", _results),
    "learning": ("Learning", _learning),
    "gradient": ("Gradient", _gradient),
    "classes": ("Class by class", _classes),
    "multi": ("Label by label", _multi),
    "confidence": ("Can its confidence be believed?", _confidence),
    "abstention": ("What abstaining buys", _abstention),
    "mistakes": ("Where it errs", _mistakes),
    "browser": ("The mistakes", _browser),
    "data": ("Data", _data),
    "prompt": ("Prompt and words", _prompt),
    "adapters": ("What was adapted", _adapters),
    "weights": ("What training did to the weights", _weights),
    "time": ("Time, memory and cost", _time),
    "environment": ("Environment", _environment),
    "config": ("Configuration", _config),
}
"""Title and content of each section, by the name of its template, in the order of the page."""
