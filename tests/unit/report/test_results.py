"""Laws of the comparison with the baselines, in words and as a table."""

import io

import pytest
from rich.console import Console

from tonetune.report.results import headline, results, verdict
from tonetune.report.terminal import results_table


def summary(accuracy, half_width=0.02):
    interval = [accuracy - half_width, accuracy + half_width]
    return {"accuracy": accuracy, "accuracy_ci95": interval, "macro_f1": accuracy, "macro_f1_ci95": interval, "n": 1200}


def baselines(**changes):
    document = {"majority": summary(0.5), "tfidf": summary(0.81), "zero_shot": summary(0.48)}
    return {**document, "zero_shot_calibrated": summary(0.7), "zero_shot_note": None, **changes}


NO_ZERO_SHOT = {"zero_shot": None, "zero_shot_calibrated": None, "zero_shot_note": "no words"}


def test_tuned_comes_last_and_every_baseline_before_it():
    assert [r.key for r in results(baselines(), summary(0.9))] == [
        "majority", "tfidf", "zero_shot", "zero_shot_calibrated", "tuned",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [(0.88, "better than every baseline"), (0.82, "overlaps"), (0.81, "does not beat"), (0.6, "does not beat")],
)
def test_verdict_needs_intervals_apart(accuracy, expected):
    assert expected in verdict(baselines(), summary(accuracy))
    assert expected in headline(baselines(), summary(accuracy))[-1]


def test_verdict_minds_an_uncertain_baseline_that_is_not_the_best():
    wide = baselines(zero_shot_calibrated=summary(0.8, half_width=0.1))
    assert "overlaps" in verdict(wide, summary(0.88))


def test_headline_names_every_method_with_its_number():
    text = " ".join(headline(baselines(), summary(0.878))).replace("\u00a0", " ")
    for number in ("87.8 %", "85.8 % to 89.8 %", "1,200", "48.0 %", "70.0 %", "81.0 %", "50.0 %"):
        assert number in text
    assert "Before tuning" not in " ".join(headline(baselines(**NO_ZERO_SHOT), summary(0.9)))


def test_terminal_table_holds_the_same_cells():
    console = Console(file=io.StringIO(), width=100)
    console.print(results_table(baselines(**NO_ZERO_SHOT), summary(0.878)))
    text = console.file.getvalue()
    assert "0.878 [0.858, 0.898]" in text and "1,200 test texts" in text and "no words" in text
    row = next(line for line in text.splitlines() if "Zero-shot, raw" in line)
    assert row.count("–") == 2
