"""Laws of the comparison with the baselines, in words and as a table."""

import io

import pytest
from rich.console import Console

from tonetune.evaluation.paired import Paired
from tonetune.report.results import compared, headline, results, verdict
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


def against(p_value, *, tfidf=0.02):
    """Paired tests of a tuned model that leads TF-IDF by `tfidf`, and others by 0.3."""
    sizes = {"majority": 0.3, "tfidf": tfidf, "zero_shot": 0.3}
    return {
        name: Paired(
            difference={"accuracy": size, "macro_f1": size},
            ci95={"accuracy": (size - 0.03, size + 0.01), "macro_f1": (size - 0.03, size + 0.01)},
            p_value={"accuracy": p_value if name == "tfidf" else 1e-9, "macro_f1": 0.5},
            won=90,
            lost=70,
        )
        for name, size in sizes.items()
    }


def test_paired_tests_decide_where_there_are_any():
    """Intervals overlap, and yet the difference is shown; or they do not, and it is not."""
    close = summary(0.83)
    sure, unsure = verdict(baselines(), close, against(0.0004)), verdict(baselines(), close, against(0.2))
    assert "better than every baseline: its lead" in sure and "2.0 points" in sure and "p < 0.001" in sure
    assert "-1.0 to 3.0" in sure
    assert "not certain" in unsure and "p = 0.200" in unsure
    assert "does not beat" in verdict(baselines(), summary(0.8), against(0.0004))


def test_two_runs_are_compared_in_both_metrics():
    text = compared(against(0.03)["tfidf"])
    assert "In accuracy the second run is better than the first by 2.0 points" in text and "more than noise" in text
    assert "In macro-F1" in text and "within the noise" in text


def test_verdict_minds_an_uncertain_baseline_that_is_not_the_best():
    wide = baselines(zero_shot_calibrated=summary(0.8, half_width=0.1))
    assert "overlaps" in verdict(wide, summary(0.88))


def test_headline_names_every_method_with_its_number():
    text = " ".join(headline(baselines(), summary(0.878))).replace("\u00a0", " ")
    for number in ("87.8 %", "85.8 % to 89.8 %", "1,200", "48.0 %", "70.0 %", "81.0 %", "50.0 %"):
        assert number in text
    assert "bias of its label words" in text
    assert "Before tuning" not in " ".join(headline(baselines(**NO_ZERO_SHOT), summary(0.9)))


@pytest.mark.parametrize(("method", "said"), [("words", "bias of its label words"), ("yes_no", "asked yes or no")])
def test_headline_says_how_the_corrected_scores_came_about(method, said):
    text = " ".join(headline(baselines(zero_shot_choice={"method": method}), summary(0.9)))
    assert [how in text for how in ("bias of its label words", "asked yes or no")].count(True) == 1 and said in text


def test_terminal_table_holds_the_same_cells():
    console = Console(file=io.StringIO(), width=100)
    console.print(results_table(baselines(**NO_ZERO_SHOT), summary(0.878)))
    text = console.file.getvalue()
    assert "0.878 [0.858, 0.898]" in text and "1,200 test texts" in text and "no words" in text
    row = next(line for line in text.splitlines() if "Zero-shot, raw" in line)
    assert row.count("–") == 2
