"""Laws of the inline plots."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib", reason="needs the extra report")

from tonetune.report import plots
from tonetune.report.results import Result

METRICS = [("accuracy", "accuracy"), ("macro_f1", "macro-F1")]
SUMMARY = {"accuracy": 0.8, "accuracy_ci95": [0.7, 0.9], "macro_f1": 0.75, "macro_f1_ci95": [0.65, 0.85], "n": 9}
BINS = [{"confidence": 0.6, "accuracy": 0.5, "count": 4}]
ANSWERED = [{"coverage": c, "accuracy": 0.9, "accuracy_ci95": [0.8, 1]} for c in (0.5, 1)]
STEPS = [{"step": s, "loss": 1 / s, "grad_norm": 3 / s} for s in range(1, 9)]
WEIGHTS = {"A": {"edges": [-1, 0, 1], "before": [3, 1], "after": [2, 2]},
           "B": {"edges": [-1, 0, 1], "before": [0, 4], "after": [1, 3]}}  # fmt: skip
WATCHED = [
    {"step": 1, "time_s": 60.0, "memory_mib": 2048},
    {"event": "out_of_memory", "step": 1, "micro_batch_tokens": 512},
    {"event": "sample", "time_s": 90.0, "memory_used_mib": 4096.0, "utilization_percent": 91.0, "power_w": None},
    {"step": 2, "time_s": 120.0, "memory_mib": 3072},
]
VALIDATIONS = [{"step": s, "loss": 1 / s, "accuracy": 0.5 + s / 20, "macro_f1": 0.4 + s / 20} for s in (4, 8)]


def drawn():
    results = [
        Result("tfidf", "TF-IDF", SUMMARY),
        Result("zero_shot", "Zero-shot", None),
        Result("tuned", "Tuned", SUMMARY),
    ]
    return {
        "results": plots.results_plot(results),
        "learning": plots.learning_plot(STEPS, VALIDATIONS, metrics=METRICS, zero_shot=0.4, best_step=8),
        "learning, nothing validated": plots.learning_plot(STEPS, [], metrics=METRICS, zero_shot=None, best_step=None),
        "gradient": plots.gradient_plot(STEPS, clip=1.0),
        "weights": plots.weights_plot(WEIGHTS),
        "watch": plots.watch_plot(plots.watch_panels(WATCHED)),
        "reliability": plots.reliability_plot(BINS, BINS),
        "abstention": plots.abstention_plot(
            [{"coverage": c, "accuracy": 0.9, "accuracy_ci95": [0.8, 1]} for c in (0.5, 1)]
        ),
    }


@pytest.fixture(scope="module")
def svgs():
    return drawn()


def test_plots_are_svg_coloured_by_the_page(svgs):
    assert len(svgs) > 7
    for svg in svgs.values():
        check(svg)


def check(svg):
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and "viewBox" in root.attrib and "width" not in root.attrib
    assert "var(--ink)" in svg or "var(--muted)" in svg
    assert "#0101" not in svg
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([\w-]+)', svg))
    assert used <= {element.attrib["id"] for element in root.iter() if "id" in element.attrib}


def test_text_stays_text_and_a_method_without_numbers_is_left_out(svgs):
    svg = svgs["results"]
    assert ">TF-IDF<" in svg and ">Tuned<" in svg
    assert "Zero-shot" not in svg


@pytest.mark.slow
def test_the_plot_of_one_run_does_not_change(svgs):
    assert drawn() == svgs


def test_the_watch_shows_what_was_measured_and_no_more():
    memory, load = plots.watch_panels(WATCHED)
    assert memory[0] == "memory, GiB" and list(memory[1].values()) == [([1.0, 2.0], [2.0, 3.0]), ([1.5], [4.0])]
    assert load == ("utilisation, %", {"": ([1.5], [91.0])})
    assert plots.watch_panels([]) == []
