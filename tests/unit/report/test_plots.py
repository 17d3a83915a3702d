"""Laws of the inline plots."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib", reason="needs the extra report")

from tonetune.report import plots
from tonetune.report.results import Result

SUMMARY = {"accuracy": 0.8, "accuracy_ci95": [0.7, 0.9], "macro_f1": 0.75, "macro_f1_ci95": [0.65, 0.85], "n": 9}
BINS = [{"confidence": 0.6, "accuracy": 0.5, "count": 4}]
ANSWERED = [{"coverage": c, "accuracy": 0.9, "accuracy_ci95": [0.8, 1]} for c in (0.5, 1)]
STEPS = [{"step": s, "loss": 1 / s} for s in range(1, 9)]
VALIDATIONS = [{"step": s, "loss": 1 / s, "accuracy": 0.5 + s / 20, "macro_f1": 0.4 + s / 20} for s in (4, 8)]


def drawn():
    results = [
        Result("tfidf", "TF-IDF", SUMMARY),
        Result("zero_shot", "Zero-shot", None),
        Result("tuned", "Tuned", SUMMARY),
    ]
    return {
        "results": plots.results_plot(results),
        "learning": plots.learning_plot(STEPS, VALIDATIONS, zero_shot_accuracy=0.4, best_step=8),
        "learning, nothing validated": plots.learning_plot(STEPS, [], zero_shot_accuracy=None, best_step=None),
        "reliability": plots.reliability_plot(BINS, BINS),
        "abstention": plots.abstention_plot(
            [{"coverage": c, "accuracy": 0.9, "accuracy_ci95": [0.8, 1]} for c in (0.5, 1)]
        ),
    }


@pytest.mark.parametrize("name", drawn())
def test_a_plot_is_one_svg_coloured_by_the_page(name):
    svg = drawn()[name]
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and "viewBox" in root.attrib and "width" not in root.attrib
    assert "var(--ink)" in svg or "var(--muted)" in svg
    assert "#0101" not in svg
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([\w-]+)', svg))
    assert used <= {element.attrib["id"] for element in root.iter() if "id" in element.attrib}


def test_text_stays_text_and_a_method_without_numbers_is_left_out():
    svg = drawn()["results"]
    assert ">TF-IDF<" in svg and ">Tuned<" in svg
    assert "Zero-shot" not in svg


@pytest.mark.slow
def test_the_plot_of_one_run_does_not_change():
    assert drawn() == drawn()
