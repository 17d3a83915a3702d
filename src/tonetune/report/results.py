"""The comparison every run ends with, tuned model against baselines: the same rows for terminal, card and report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonetune.evaluation.paired import Paired
from tonetune.report.text import percent

METHODS = {
    "majority": "Commonest class",
    "tfidf": "TF-IDF + logistic regression",
    "zero_shot": "Zero-shot, raw",
    "zero_shot_calibrated": "Zero-shot, corrected",
    "tuned": "Tuned",
}


ONE_LABEL = (("accuracy", "accuracy"), ("macro_f1", "macro-F1"))
SEVERAL_LABELS = (
    ("micro_f1", "micro-F1"),
    ("macro_f1", "macro-F1"),
    ("average_precision", "average precision"),
    ("accuracy", "subset accuracy"),
)
"""Key and title of the metrics that are shown, in order; methods are judged by the first."""


def shown_metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those of the metrics that are shown, key and title."""
    titles = SEVERAL_LABELS if "micro_f1" in metrics else ONE_LABEL
    return [(key, title) for key, title in titles if key in metrics]


def metric_title(key: str) -> str:
    """A metric of a config or a document, such as "macro_f1", as a person reads it."""
    return key.replace("_f1", "-F1")


@dataclass(frozen=True)
class Result:
    """One method on the test texts; `metrics` is its summary, or None where it could not be run."""

    key: str
    name: str
    metrics: Mapping[str, Any] | None

    def cell(self, metric: str) -> str:
        """The metric with its 95 % interval, such as "0.878 [0.859, 0.896]", or a dash."""
        if self.metrics is None or metric not in self.metrics:
            return "–"
        low, high = self.metrics[f"{metric}_ci95"]
        return f"{self.metrics[metric]:.3f} [{low:.3f}, {high:.3f}]"


def results(baselines: Mapping[str, Any], tuned: Mapping[str, Any]) -> list[Result]:
    """Every method in the order of reading, the tuned model last."""
    return [Result(key, name, tuned if key == "tuned" else baselines.get(key)) for key, name in METHODS.items()]


def headline(
    baselines: Mapping[str, Any], tuned: Mapping[str, Any], against: Mapping[str, Paired] | None = None
) -> list[str]:
    """What came out, in three sentences: the tuned model, the baselines, and whether the difference is shown."""
    (metric, title), *_ = shown_metrics(tuned)
    low, high = tuned[f"{metric}_ci95"]
    interval = f"(95\u00a0% interval {percent(low)} to {percent(high)})"
    first = f"The tuned model labels {percent(tuned['accuracy'])} of {tuned['n']:,} test texts correctly {interval}."
    if metric != "accuracy":
        first = (
            f"The tuned model reaches a {title} of {percent(tuned[metric])} {interval} on {tuned['n']:,} test texts, "
            f"and gives exactly the right labels to {percent(tuned['accuracy'])} of them."
        )
    parts = [
        f"TF-IDF with logistic regression on the same training texts reaches {percent(baselines['tfidf'][metric])}",
        f"always answering the commonest class {percent(baselines['majority'][metric])}",
    ]
    if baselines.get("zero_shot") is not None:
        zero_shot = f"Before tuning, the same model reaches {percent(baselines['zero_shot'][metric])}"
        if baselines.get("zero_shot_calibrated") is not None:
            asked = baselines.get("zero_shot_choice", {}).get("method") == "yes_no"
            how = "asked yes or no of each label" if asked else "with the bias of its label words taken out"
            zero_shot += f" as it stands and {percent(baselines['zero_shot_calibrated'][metric])} {how}"
        parts.insert(0, zero_shot)
    return [first, "; ".join(parts) + ".", verdict(baselines, tuned, against)]


def verdict(baselines: Mapping[str, Any], tuned: Mapping[str, Any], against: Mapping[str, Paired] | None = None) -> str:
    """Whether tuning was worth it, judged by accuracy, or by micro-F1 where it is shown, against the best baseline.

    `against` has the paired tests of the tuned model against each baseline. Without them, in a run whose baseline
    predictions were not kept, intervals must lie apart.
    """
    measured = {key: baselines[key] for key in METHODS if baselines.get(key) is not None}
    (metric, _), *_ = shown_metrics(tuned)
    best = max(measured, key=lambda key: float(measured[key][metric]))
    if tuned[metric] <= measured[best][metric]:
        return f"It does not beat the best baseline, {METHODS[best]}: tuning has not paid here."
    if not against:
        if tuned[f"{metric}_ci95"][0] > max(metrics[f"{metric}_ci95"][1] for metrics in measured.values()):
            return "It is better than every baseline: its interval lies above all of theirs."
        return f"Its interval overlaps that of a baseline; the best is {METHODS[best]}. The difference is not certain."
    lead = f"its lead over the best, {METHODS[best]}, is {difference(against[best], metric)}"
    if all(test.certain(metric) for test in against.values()):
        return f"It is better than every baseline: {lead}."
    return f"It is not certain that it is better than every baseline: {lead}."


def over_seeds(seeds: Mapping[str, Any]) -> str:
    """How much the luck of the seed matters, in a sentence."""
    parts = []
    for metric, name in shown_metrics(seeds):
        mean, (least, most), (low, high) = (seeds[metric][key] for key in ("mean", "range", "ci95"))
        parts.append(
            f"{name} {percent(mean)} on average, from {percent(least)} to {percent(most)} "
            f"(95\u00a0% interval of the mean {percent(low)} to {percent(high)})"
        )
    best = f"This is the run of seed {seeds['best']}, best on validation."
    return f"Over {len(seeds['tuned'])} seeds: {'; '.join(parts)}. {best}"


def compared(result: Paired) -> str:
    """How the second of two runs stands to the first, metric by metric, and whether that is more than noise."""
    sentences = []
    for metric, name in shown_metrics(result.difference):
        size = result.difference[metric]
        direction = "better than" if size > 0 else "worse than" if size < 0 else "equal to"
        noise = "more than noise" if result.certain(metric) else "within the noise"
        sentences.append(f"In {name} the second run is {direction} the first by {difference(result, metric)}: {noise}.")
    return " ".join(sentences)


def difference(result: Paired, metric: str) -> str:
    """A difference with its interval and p-value, in points: "4.2 points (95 % interval 2.1 to 6.3, p < 0.001)"."""
    size, (low, high), p_value = result.difference[metric], result.ci95[metric], result.p_value[metric]
    p = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    return f"{100 * abs(size):.1f} points (95\u00a0% interval {100 * low:.1f} to {100 * high:.1f}, {p})"
