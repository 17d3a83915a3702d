"""`tonetune train` from file to report: its document, every file of the run directory, and what must agree in them."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from tonetune.config import load_config
from tonetune.device.probes.record import describe_machine, write_results
from tonetune.device.probes.result import ProbeResult

FILES = (
    "config.yaml run.json env.json data.json dropped.jsonl splits/train.jsonl splits/validation.jsonl "
    "splits/test.jsonl labels.json adapters.json metrics.jsonl watch.jsonl run.log best.json "
    "adapter/adapter_config.json adapter/adapter_model.safetensors adapter/config.json adapter/tokenizer.json "
    "adapter/tokenizer_config.json adapter/tonetune.json eval/baselines/report.json "
    "eval/validation/report.json eval/validation/predictions.jsonl eval/validation/confusion.csv "
    "eval/test/report.json eval/test/predictions.jsonl eval/test/confusion.csv README.md"
).split()
SPLITS = ("train", "validation", "test")
LANGUAGES = {"en.csv": "en", "zh.jsonl": "zh"}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_document_has_the_keys_and_types_of_the_contract(trained: Any, name: str) -> None:
    summary = trained(name).document
    assert Path(summary["run"]).is_absolute()
    for scores in [*summary["baselines"].values(), summary["tuned"]]:
        assert scores["n"] == 32
        for metric in ("accuracy", "macro_f1"):
            low, high = scores[f"{metric}_ci95"]
            assert 0.0 <= low <= scores[metric] <= high <= 1.0
    assert set(summary["baselines"]) == {"majority", "tfidf", "zero_shot", "zero_shot_calibrated"}
    figures = summary["train"]
    assert set(figures) == {
        "wall_s", "samples_per_s", "tokens_per_s", "warmup_s", "peak_memory_mib", "epochs", "steps",
        "grad_norm_mean", "grad_norm_max", "skipped_steps", "predicted_per_s",
    }  # fmt: skip
    assert isinstance(figures["steps"], int) and figures["steps"] == 10
    assert figures["epochs"] == 2.0
    assert figures.pop("skipped_steps") == 0
    assert all(value > 0 and math.isfinite(value) for value in figures.values())


def test_weights_before_and_after_are_counted(run: Path) -> None:
    adapters = document(run / "adapters.json")
    weights = adapters["weights"]
    assert set(weights) == {"A", "B", "head"}
    assert sum(sum(part["after"]) for part in weights.values()) == adapters["trainable"]
    assert weights["B"]["norm"]["before"] == 0 < weights["B"]["norm"]["change"] == weights["B"]["norm"]["after"]


def test_progress_is_on_stderr_in_plain_lines(trained: Any) -> None:
    err = trained("en.csv").err
    assert "\x1b" not in err and "\r" not in err
    for word in ("run ", "136 train", "validation accuracy", "training 10/10", "Tuned"):
        assert word in err
    assert err.index("6 linear layers adapted") < err.index("parameters to train") < err.index("training 10/10")
    assert all(line == line.rstrip() or "━" in line or "│" in line for line in err.splitlines() if "left" in line)


@pytest.mark.slow
def test_quiet_is_silent(cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path) -> None:
    result = cli("train", "--data", emotion_files["en.jsonl"], *quick, "--set", f"run.dir={tmp_path}", "-q")
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_file_of_the_contract_is_there_and_valid(trained: Any, name: str) -> None:
    run = Path(trained(name).document["run"])
    assert [file for file in FILES if not (run / file).is_file()] == []
    for path in run.rglob("*"):
        assert not path.name.startswith(".")
        if path.suffix == ".json":
            document(path)
        elif path.suffix == ".jsonl":
            assert not (text := path.read_text(encoding="utf-8")) or text.endswith("\n")
            rows(path)


@pytest.mark.parametrize("name", LANGUAGES)
def test_run_json_tells_the_story(trained: Any, name: str) -> None:
    summary = trained(name).document
    record = document(Path(summary["run"]) / "run.json")
    assert record["status"] == "finished" and record["schema"] == 1 and record["run"] == summary["run"]
    assert record["started"] <= record["finished"]
    assert record["train"] == summary["train"]
    assert record["load_gate"]["mode"] == "off"
    assert record["prompt"]["language"] == LANGUAGES[name]


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_auto_is_resolved_and_the_config_loads_back(trained: Any, name: str) -> None:
    path = Path(trained(name).document["run"]) / "config.yaml"
    assert not re.search(r"\bauto\b", path.read_text(encoding="utf-8"))
    config = load_config(path)
    assert (config.data.text, config.data.label) == ("text", "label")
    assert config.data.labels == tuple(sorted(tiny.CUES[LANGUAGES[name]]))


def test_env_json_has_a_reason_for_every_choice(run: Path) -> None:
    environment = document(run / "env.json")
    assert set(environment["placement"]) >= {"device", "dtype", "attention", "micro_batch_tokens"}
    assert all(choice["reason"] for choice in environment["placement"].values())
    assert environment["placement"]["cudnn_attention"]["value"] is torch.backends.cuda.cudnn_sdp_enabled()
    assert environment["versions"]["torch"]


@pytest.mark.slow
def test_env_json_has_what_the_doctor_knew_and_measures_nothing(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tonetune.device.sysfs.shared_memory_mib", lambda host: 64.0)
    monkeypatch.setattr("tonetune.device.host.run_program", None)
    monkeypatch.setattr("tonetune.device.probes.run.Worker", None)
    result = ProbeResult("P4", "attention", "passed", 0.5, 1.0, None, "measured here", 0.1, {"float32_used": 0.2})
    write_results(describe_machine(), [(result, False)])
    flags = ["--set", f"run.dir={tmp_path}", "--set", "train.epochs=0.2", "--json"]
    trained = cli("train", "--data", emotion_files["en.csv"], *quick, *flags)
    environment = document(Path(trained.document["run"]) / "env.json")
    known = environment["doctor"]
    assert list(known) == ["verdict", "summary", "probes", "advice"]
    assert known["verdict"] in ("ready", "limited") and known["summary"] == "training runs on the processor"
    assert known["probes"] == [result.as_dict()]
    assert "small-shared-memory" in [row["id"] for row in known["advice"]]
    reasons = {name: choice["reason"] for name, choice in environment["placement"].items()}
    assert reasons["attention"].endswith("probe P4 on this machine: measured here")
    assert reasons["compile"].endswith("probe P6 has not run on this machine")


@pytest.mark.parametrize("name", LANGUAGES)
def test_rows_in_are_rows_in_splits_and_rows_dropped(trained: Any, emotion_files: dict[str, Path], name: str) -> None:
    run = Path(trained(name).document["run"])
    data = document(run / "data.json")
    (file,) = data["files"]
    assert file["sha256"] == hashlib.sha256(emotion_files[name].read_bytes()).hexdigest()
    parts = {split: rows(run / "splits" / f"{split}.jsonl") for split in SPLITS}
    assert {split: len(part) for split, part in parts.items()} == {s: data["splits"][s]["rows"] for s in SPLITS}
    dropped = rows(run / "dropped.jsonl")
    assert file["rows"] == sum(map(len, parts.values())) + len(dropped) == 200
    origins = [row["origin"] for part in [*parts.values(), dropped] for row in part]
    assert sorted(origins, key=lambda origin: int(origin.split(":")[1])) == [
        f"{name}:{line + name.endswith('csv')}" for line in range(1, 201)
    ]


@pytest.mark.slow
def test_messy_rows_are_all_accounted_for(cli: Any, quick: list[str], tmp_path: Path) -> None:
    good = tiny.emotion_rows("en", 80)
    extra = [("", "joy"), ("  \u200b ", "joy"), ("no label here", ""), good[0], (good[1][0], "other")]
    data = tiny.write_rows(tmp_path / "messy.csv", [*good, *extra])
    result = cli("train", "--data", data, *quick, "--set", f"run.dir={tmp_path}", "--set", "train.epochs=0.5", "--json")
    run = Path(result.document["run"])
    reasons = Counter(row["reason"] for row in rows(run / "dropped.jsonl"))
    assert reasons == {"empty_text": 2, "missing_label": 1, "duplicate": 1, "contradiction": 2}
    kept = sum(len(rows(run / "splits" / f"{split}.jsonl")) for split in SPLITS)
    assert kept + sum(reasons.values()) == len(good) + len(extra)
    assert document(run / "data.json")["dropped"] == reasons


@pytest.mark.slow
def test_a_repeat_gives_the_same_metrics_and_another_seed_others(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path, run: Path
) -> None:
    def metrics(*changes: str) -> bytes:
        flags = [part for change in changes for part in ("--set", change)]
        result = cli(
            "train", "--data", emotion_files["en.csv"], *quick, *flags, "--set", f"run.dir={tmp_path}", "--json"
        )
        return (Path(result.document["run"]) / "metrics.jsonl").read_bytes()

    first = (run / "metrics.jsonl").read_bytes()
    assert metrics("train.evaluate_every=5") == first
    assert metrics("train.evaluate_every=5", "train.seed=7") != first


def test_metrics_follow_the_plan(run: Path) -> None:
    events = rows(run / "metrics.jsonl")
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    assert [event["step"] for event in steps] == list(range(1, 11))
    assert [event["step"] for event in validations] == [5, 10]
    assert all(math.isfinite(event["loss"]) and event["grad_norm"] > 0 for event in steps)
    assert [row["step"] for row in rows(run / "watch.jsonl") if "step" in row] == list(range(1, 11))
    norms = [event["grad_norm"] for event in steps]
    figures = document(run / "run.json")["train"]
    assert figures["grad_norm_max"] == max(norms) and math.isclose(figures["grad_norm_mean"], sum(norms) / len(norms))
    best = document(run / "best.json")
    assert best["value"] == max(event[best["metric"]] for event in validations)


def test_the_device_is_watched_while_it_trains(run: Path) -> None:
    told = [row for row in rows(run / "watch.jsonl") if "event" in row]
    assert {"event": "watch", "device": "cpu", "source": "psutil"}.items() <= told[0].items()
    assert told[1]["event"] == "sample" and told[1]["process_memory_mib"] > 50
    times = [row["time_s"] for row in told]
    assert times == sorted(times) and times[0] > 0


def test_a_step_that_is_skipped_is_recorded_and_counted(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tonetune.training import gradient

    whole, bad_row = gradient.summed_loss, 7

    def summed_loss(classifier: Any, batch: Any, *rest: Any) -> Any:
        zero = (0.0 * classifier.score.weight.sum()).sqrt()  # whose gradient is 0 · ∞
        return whole(classifier, batch, *rest) + (zero if bool((batch.rows_B == bad_row).any()) else 0.0)

    monkeypatch.setattr(gradient, "summed_loss", summed_loss)
    flags = ["--set", f"run.dir={tmp_path}", "--set", "train.epochs=1", "--json"]
    result = cli("train", "--data", emotion_files["en.csv"], *quick, *flags)
    events = rows(Path(result.document["run"]) / "metrics.jsonl")
    (skipped,) = [event for event in events if event["event"] == "skipped"]
    assert list(skipped) == ["event", "step", "loss", "not_finite"]
    assert math.isfinite(skipped["loss"]) and skipped["not_finite"] == "the gradient of score.weight"
    assert result.document["train"]["skipped_steps"] == 1
    assert sum(event["event"] == "step" for event in events) == 4
    assert f"step {skipped['step']} is skipped" in " ".join(result.err.split())


@pytest.mark.parametrize("split", ["validation", "test"])
def test_predictions_are_the_rows_of_the_split_in_order(run: Path, split: str) -> None:
    examples = rows(run / "splits" / f"{split}.jsonl")
    predictions = rows(run / "eval" / split / "predictions.jsonl")
    report = document(run / "eval" / split / "report.json")
    assert [(row["text"], row["gold"]) for row in predictions] == [(row["text"], row["label"]) for row in examples]
    for row in predictions:
        assert set(row) == {"text", "label", "confidence", "scores", "gold"}
        assert math.isclose(sum(row["scores"].values()), 1.0, rel_tol=1e-6)
        assert row["scores"][row["label"]] == row["confidence"] == max(row["scores"].values())
    counts = Counter((row["gold"], row["label"]) for row in predictions)
    assert report["confusion"] == [[counts[a, b] for b in report["labels"]] for a in report["labels"]]
    lines = (run / "eval" / split / "confusion.csv").read_text(encoding="utf-8").splitlines()
    assert [list(map(int, line.split(",")[1:])) for line in lines[1:]] == report["confusion"]
    hits = sum(counts[label, label] for label in report["labels"])
    assert math.isclose(report["tuned"]["accuracy"], hits / len(predictions))


def test_the_best_state_is_the_one_that_is_kept(run: Path) -> None:
    best, report = document(run / "best.json"), document(run / "eval/validation/report.json")
    assert math.isclose(report["tuned"][best["metric"]], best["value"], abs_tol=1e-9)


def test_card_and_report_say_the_result(trained: Any, run: Path) -> None:
    for module in ("jinja2", "matplotlib"):
        pytest.importorskip(module, reason="the extra report is absent")
    accuracy = trained("en.csv").document["tuned"]["accuracy"]
    for path in (run / "README.md", run / "report.html"):
        assert f"{100 * round(accuracy, 3):.1f}" in path.read_text(encoding="utf-8")


def test_log_keeps_what_was_said(trained: Any, run: Path) -> None:
    said = [line.rstrip() for line in trained("en.csv").err.splitlines()]
    logged = (run / "run.log").read_text(encoding="utf-8")
    kept = [line for line in said if line and line in logged]
    assert len(kept) == len(said) - 4  # all but the bars, and what was said before there was a run
    assert "Tuned" in logged and "validation accuracy" in logged


def test_zero_shot_is_the_words_head_at_step_zero(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path
) -> None:
    """A step of a tiny learning rate leaves the scores as they were."""
    flags = ["--set", "train.learning_rate=1e-8", "--set", "train.epochs=0.2", "--set", "train.weight_decay=0"]
    result = cli("train", "--data", emotion_files["en.csv"], *quick, *flags, "--set", f"run.dir={tmp_path}", "--json")
    summary = result.document
    assert summary["train"]["steps"] == 1
    assert summary["tuned"] == summary["baselines"]["zero_shot"]


def _numbered(path: Path) -> Path:
    names = {name: str(i) for i, name in enumerate(tiny.CUES["en"])}
    return tiny.write_rows(path, [(text, names[label]) for text, label in tiny.emotion_rows("en", 80)])


@pytest.mark.slow
def test_numeric_labels_have_no_zero_shot_until_their_words_are_named(
    cli: Any, quick: list[str], tmp_path: Path
) -> None:
    flags = ["--data", _numbered(tmp_path / "codes.csv"), *quick, "--set", f"run.dir={tmp_path}", "--json"]
    without = cli("train", *flags)
    assert without.document["baselines"]["zero_shot"] is None
    assert "prompt.words" in without.err
    report = document(Path(without.document["run"]) / "eval/baselines/report.json")
    assert "prompt.words" in report["zero_shot_note"]
    words = {str(i): name for i, name in enumerate(tiny.CUES["en"])}
    named = cli("train", *flags, "--set", f"prompt.words={json.dumps(words)}")
    assert named.document["baselines"]["zero_shot"]["n"] == named.document["tuned"]["n"]


@pytest.mark.slow
def test_texts_beyond_the_limit_are_counted_and_said(cli: Any, quick: list[str], tmp_path: Path) -> None:
    long = [(f"{text} {'and then ' * 30}", label) for text, label in tiny.emotion_rows("en", 4, seed=9)]
    data = tiny.write_rows(tmp_path / "long.csv", [*tiny.emotion_rows("en", 76), *long])
    flags = ["--set", "data.max_length=48", "--set", "train.epochs=0.5", "--set", f"run.dir={tmp_path}"]
    result = cli("train", "--data", data, *quick, *flags, "--json")
    tokens = document(Path(result.document["run"]) / "data.json")["tokens"]
    assert (tokens["truncated_texts"], tokens["truncated_share"], tokens["longest_tokens"]) == (4, 0.05, 48)
    assert "4 texts (5.0\u00a0%) are longer than 48 tokens" in result.err and "warning" not in result.err


def test_init_writes_a_config_that_loads_and_never_overwrites(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "start.yaml"
    first = cli("train", "--init", path, "--json")
    assert first.document == {"path": str(path)}
    assert load_config(path) == load_config(None)
    assert cli("train", "--init", path, "--json").error(code=2)["where"] == str(path)


@pytest.mark.slow
def test_a_home_directory_is_understood(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    flags = ["--set", "run.dir=~/kept", "--set", "train.epochs=0.2"]
    result = cli("train", "--data", emotion_files["en.csv"], *quick, *flags, "--json")
    assert Path(result.document["run"]).parent == tmp_path / "kept"
    assert not (tmp_path / "~").exists()


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["loraplus", "pissa"])
def test_a_variant_is_saved_as_the_plain_lora_that_was_evaluated(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path, variant: str
) -> None:
    """The scores of the run's own test are those of the adapter that another process would load."""
    flags = ["--set", f"lora.variant={variant}", "--set", f"run.dir={tmp_path}", "--set", "train.learning_rate=1e-3"]
    run = Path(cli("train", "--data", emotion_files["en.csv"], *quick, *flags, "--json").document["run"])
    lora = document(run / "adapter/tonetune.json")["lora"]
    factor = 2 if variant == "pissa" else 1
    assert (lora["variant"], lora["rank"], lora["alpha"]) == ("lora", 8 * factor, 16.0 * factor)
    assert load_config(run / "config.yaml").lora.variant == variant
    tested = rows(run / "eval/test/predictions.jsonl")
    again = [json.loads(line) for line in cli("predict", run, run / "splits/test.jsonl").out.splitlines()]
    assert [row["label"] for row in again] == [row["label"] for row in tested]
    for found, expected in zip(again, tested, strict=True):
        assert found["scores"] == pytest.approx(expected["scores"], abs=1e-6)


@pytest.mark.slow
def test_train_as_a_program(
    program: Callable[..., Any], emotion_files: dict[str, Path], quick: list[str], tmp_path: Path
) -> None:
    child = program("train", "--data", emotion_files["zh.csv"], *quick, "--set", f"run.dir={tmp_path}", "--json")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert Path(json.loads(out)["run"]).parent == tmp_path.resolve()
    assert "\x1b" not in err


@pytest.mark.slow
def test_a_run_that_is_short_of_memory_goes_on_and_says_so(
    cli: Any,
    emotion_files: dict[str, Path],
    quick: list[str],
    tmp_path: Path,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tonetune.training import gradient

    whole, left = gradient.summed_loss, [1]

    def summed_loss(*args: Any) -> Any:
        if left and left.pop():
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return whole(*args)

    monkeypatch.setattr(gradient, "summed_loss", summed_loss)
    flags = ["--set", f"run.dir={tmp_path}", "--set", "train.evaluate_every=5", "--json"]
    result = cli("train", "--data", emotion_files["en.csv"], *quick, *flags)
    short = Path(result.document["run"])
    events = [row for row in rows(short / "watch.jsonl") if row.get("event") == "out_of_memory"]
    assert [(row["event"], row["step"]) for row in events] == [("out_of_memory", 1)]
    chosen = document(short / "env.json")["placement"]["micro_batch_tokens"]["value"]
    assert events[0]["micro_batch_tokens"] == chosen // 2
    assert "out of memory; it is done again" in (short / "run.log").read_text(encoding="utf-8").replace("\n", " ")
    assert len(rows(short / "metrics.jsonl")) == len(rows(run / "metrics.jsonl"))
