"""Texts of any number of labels, through every verb, on the tiny model."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

from tonetune.evaluation.predictions import said
from tonetune.model.artefact import Manifest
from tonetune.rundir import read_json, read_jsonl

pytestmark = pytest.mark.slow

TEXTS = ["i was so glad and laughing", "lonely and crying and afraid", "the train"]


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_sets(tmp_path_factory.mktemp("sets") / "multi.csv", tiny.emotion_sets("en", 160))


@pytest.fixture(scope="module")
def summary(cli: Any, quick: list[str], rows_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    flags = ["--set", f"run.dir={tmp_path_factory.mktemp('runs')}", "--set", "evaluate.select_by=micro_f1"]
    result = cli("train", "--data", rows_file, *quick, *flags, "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = result.document
    return document


@pytest.fixture(scope="module")
def multi_run(summary: dict[str, Any]) -> Path:
    return Path(summary["run"])


def test_every_method_has_every_metric(summary: dict[str, Any], multi_run: Path) -> None:
    methods = [summary["tuned"], *summary["baselines"].values()]
    assert len(methods) == 5
    for metrics in methods:
        for name in ("micro_f1", "macro_f1", "average_precision", "accuracy"):
            low, high = metrics[f"{name}_ci95"]
            assert low <= metrics[name] <= high
    choice = read_json(multi_run / "eval/baselines/report.json")["zero_shot_choice"]
    assert set(choice["average_precision"]) == {"words", "yes_no"}
    assert choice["average_precision"][choice["method"]] == max(choice["average_precision"].values())


def test_the_best_validation_is_that_of_the_kept_thresholds(multi_run: Path) -> None:
    report = read_json(multi_run / "eval/validation/report.json")
    assert report["tuned"]["micro_f1"] == pytest.approx(read_json(multi_run / "best.json")["value"])
    assert Manifest.read(multi_run / "adapter").thresholds == pytest.approx(report["thresholds"])
    assert read_json(multi_run / "adapter/config.json")["problem_type"] == "multi_label_classification"


def test_predictions_are_those_of_the_test(cli: Any, multi_run: Path) -> None:
    """`predict` on the test texts gives the labels, and the scores, that the run's own evaluation gave."""
    tested = read_jsonl(multi_run / "eval/test/predictions.jsonl")
    result = cli("predict", multi_run, multi_run / "splits/test.jsonl")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [row["labels"] for row in found] == [row["labels"] for row in tested]
    thresholds = Manifest.read(multi_run / "adapter").thresholds
    assert thresholds is not None
    for row, expected in zip(found, tested, strict=True):
        assert row["scores"] == pytest.approx(expected["scores"], abs=1e-5)
        assert row["labels"] == [name for name, score in row["scores"].items() if score > thresholds[name]]
        assert set(row) == {"text", "labels", "confidence", "scores"}


def test_evaluate_gives_the_report_of_the_run_and_of_other_files(cli: Any, multi_run: Path, rows_file: Path) -> None:
    report = cli("evaluate", multi_run, "--json").document
    kept = read_json(multi_run / "eval/test/report.json")
    assert report["tuned"]["micro_f1"] == pytest.approx(kept["tuned"]["micro_f1"])
    other = cli("evaluate", multi_run, "--data", rows_file, "--json").document
    assert other["tuned"]["n"] == 160 and "confusion" not in other
    shown = cli("evaluate", multi_run)
    assert "subset accuracy" in shown.err and "given instead" in shown.err


def test_a_table_of_predictions_has_lists_and_abstains(cli: Any, multi_run: Path, tmp_path: Path) -> None:
    texts = [part for text in TEXTS for part in ("-i", text)]
    assert cli("predict", multi_run, *texts, "--to", tmp_path / "p.csv").code == 0
    with open(tmp_path / "p.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    rows = cli("predict", multi_run, *texts, "--json").document["rows"]
    assert [json.loads(row["labels"]) for row in written] == [row["labels"] for row in rows]
    unsure = cli("predict", multi_run, *texts, "--abstain", "1", "--json").document["rows"]
    assert [row["labels"] for row in unsure] == [None] * 3


def test_a_run_compares_with_itself(cli: Any, multi_run: Path) -> None:
    document = cli("compare", multi_run, multi_run, "--json").document
    assert document["difference"] == {"micro_f1": 0.0, "macro_f1": 0.0, "accuracy": 0.0}
    assert set(document["p_value"].values()) == {1.0}


def test_card_and_page_say_thresholds_and_metrics(multi_run: Path) -> None:
    card = (multi_run / "README.md").read_text(encoding="utf-8")
    assert "| micro-F1 | macro-F1 | average precision | subset accuracy |" in card and "with any of 4 labels" in card
    pytest.importorskip("jinja2", reason="the extra report is absent")
    page = (multi_run / "report.html").read_text(encoding="utf-8")
    assert "What stands for what" in page and "Micro-F1" in page and "micro-F1" in page
    assert "What training did to the weights" in page and "Norm of the gradient" in page
    assert "What is missing" not in page
    wrong = [row for row in read_jsonl(multi_run / "eval/test/predictions.jsonl") if said(row) != row["gold"]]
    assert f"{len(wrong)} of" in page


def test_the_classifier_gives_the_labels_above_their_thresholds(multi_run: Path) -> None:
    import tonetune

    classifier = tonetune.load(multi_run)
    found = classifier.predict(TEXTS)
    probs = classifier.predict_proba(TEXTS)
    thresholds = np.array([*(classifier.thresholds or {}).values()])
    for prediction, probs_C in zip(found, probs, strict=True):
        given = [name for name, yes in zip(classifier.labels, probs_C > thresholds, strict=True) if yes]
        assert prediction.labels == given


def test_what_makes_no_sense_is_refused(cli: Any, multi_run: Path, rows_file: Path, tmp_path: Path) -> None:
    error = cli("annotate", "next", multi_run, rows_file, "--to", tmp_path / "q.json", "--json").error(code=2)
    assert "any number" in error["what"]
    flags = ["--pool", rows_file, "--answers", rows_file, "--set", "data.task=multi-label", "--json"]
    assert cli("annotate", "loop", tmp_path / "loop", *flags).error(code=2)["where"] == "data.task"


def test_exports_carry_the_thresholds(cli: Any, multi_run: Path, tmp_path: Path) -> None:
    import tonetune

    expected = tonetune.load(multi_run).predict(TEXTS)
    for kind in ("merged", "onnx"):
        if kind == "onnx":
            pytest.importorskip("onnxscript", reason="the extra onnx is absent")
        out = tmp_path / kind
        exported = cli("export", multi_run, "--to", kind, "--out", out, "--force", "--json")
        assert exported.code == 0, exported.err
        assert exported.document["parity"]["agreement"] == 1.0
        found = tonetune.load(out).predict(TEXTS)
        assert [one.labels for one in found] == [one.labels for one in expected]
    config = read_json(tmp_path / "merged/config.json")
    assert config["problem_type"] == "multi_label_classification"


def test_zero_shot_is_the_words_head_at_step_zero(cli: Any, quick: list[str], rows_file: Path, tmp_path: Path) -> None:
    """A step of a tiny learning rate leaves the scores as they were."""
    flags = ["--set", "train.learning_rate=1e-8", "--set", "train.epochs=0.2", "--set", "train.weight_decay=0"]
    summary = cli("train", "--data", rows_file, *quick, *flags, "--set", f"run.dir={tmp_path}", "--json").document
    assert summary["train"]["steps"] == 1
    tuned, before = summary["tuned"], summary["baselines"]["zero_shot"]
    for name, value in before.items():
        assert tuned[name] == pytest.approx(value, abs=1e-9), name
