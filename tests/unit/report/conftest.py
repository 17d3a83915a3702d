"""An invented run directory: the files of a finished run with hostile labels and texts in it."""

import math
import shutil
import sys

import numpy as np
import pytest
import torch

from tonetune.api.results import evaluate_split
from tonetune.api.results import write_evaluation as write_split
from tonetune.config import load_config, to_yaml
from tonetune.evaluation.calibration import softmax
from tonetune.evaluation.metrics import argmax_labels, classification_metrics
from tonetune.evaluation.single_label import SingleLabel
from tonetune.labels import LabelSet
from tonetune.model.histograms import weight_histograms
from tonetune.report import plots
from tonetune.rundir import RunDir, append_jsonl, write_json

HOSTILE_LABEL = "<b>$\\frac{\x1b[31m"
HOSTILE_TEXT = "<script>alert(1)</script> {{ 7 * 7 }} \x1b[2J \u202egnp.exe & 烦死了，等了三个小时😭"
LABELS = ("anger", "喜悦", HOSTILE_LABEL)


def summary(gold, predicted, rng):
    return classification_metrics(gold, predicted, LABELS, rng=rng).summary()


def write_evaluation(run, rng, *, num_texts=240):
    """Results of a model that is right about four times in five, and of baselines below it."""
    gold = rng.integers(3, size=num_texts)
    logits = rng.normal(size=(num_texts, 3)) + 1.8 * np.eye(3)[gold]
    probs = softmax(logits, 0.8)
    texts = [f"text {i}: 房间很干净，下次还来" for i in range(num_texts)]
    texts[int(np.argmax((argmax_labels(probs) != gold) * probs.max(axis=1)))] = HOSTILE_TEXT
    for split in ("validation", "test"):
        cut = np.arange(num_texts) % 9 == 0
        report, rows = evaluate_split(
            SingleLabel(LabelSet(LABELS), 0.8), split, texts=texts, logits=logits, gold=gold, truncated=cut
        )
        write_split(run, split, report, rows)
    noisy = {"tfidf": 0.5, "zero_shot": 2.0, "zero_shot_calibrated": 1.0}
    guesses = {key: argmax_labels(logits + rng.normal(scale=3 * s, size=logits.shape)) for key, s in noisy.items()}
    guesses["majority"] = np.zeros_like(gold)
    baselines = {key: summary(gold, predicted, rng) for key, predicted in guesses.items()}
    document = {"labels": list(LABELS), "n": num_texts, **baselines, "zero_shot_note": None}
    write_json(run.evaluation("baselines") / "report.json", document)


def write_training(run):
    for step in range(1, 61):
        loss = 0.35 + 0.8 * math.exp(-step / 15) + 0.05 * math.sin(step * 2.3)
        norm = 4 * math.exp(-step / 20) + 0.2 * abs(math.sin(step))
        event = {"event": "step", "step": step, "learning_rate": 2e-4, "loss": loss, "grad_norm": norm}
        append_jsonl(run.metrics, event)
        append_jsonl(run.watch, {"step": step, "time_s": 3.0 * step, "memory_mib": 2000 + 5 * step})
        sample = {"event": "sample", "time_s": 3.0 * step + 1, "device": "cuda:0", "memory_used_mib": 3000.0}
        more = {"utilization_percent": 90.0 + step % 7, "temperature_c": None, "power_w": 200.0 + step}
        append_jsonl(run.watch, sample | more)
        if step % 10 == 0:
            score = 0.8 - 0.3 * math.exp(-step / 12)
            event = {"event": "validation", "step": step, "accuracy": score, "macro_f1": score - 0.02, "loss": loss}
            append_jsonl(run.metrics, event)
    write_json(run.best, {"step": 50, "metric": "macro_f1", "value": 0.78})
    layers = [
        {"name": f"layers.{i}.self_attn.{kind}", "in": 640, "out": 1024, "rank": 8, "parameters": 8 * (640 + 1024)}
        for i in range(18)
        for kind in ("q_proj", "v_proj")
    ]
    trainable = sum(layer["parameters"] for layer in layers) + 1920
    names = [{"name": kind, "in": 640, "out": 1024} for kind in ("q_proj", "v_proj")]
    kinds = [{"layers": list(range(18)), "adapted": names, "parameters": 2 * 8 * (640 + 1024), "remarks": ["odd <b>"]}]
    counts = {"trainable": trainable, "head": 1920, "total": 268_000_000}
    shape = torch.Generator().manual_seed(0)
    fresh = {"q.lora_A.w": torch.randn(800, generator=shape) / 9, "q.lora_B.w": torch.zeros(800)}
    after = {name: weight + torch.randn(800, generator=shape) / 50 for name, weight in fresh.items()}
    weights = weight_histograms(fresh, after)
    write_json(run.adapters, {"layers": layers, "kinds": kinds, **counts, "weights": weights})


PLOTS = [name for name in vars(plots) if name.endswith("_plot")]
DRAWN = {}


@pytest.fixture
def drawn_once(monkeypatch):
    """The same plot is drawn once for all tests, which takes most of the time of a report."""

    def once(name, draw):
        def drawn(*given, **named):
            key = (name, repr(given), repr(named))
            if key not in DRAWN or sys.modules.get("matplotlib", "") is None:
                DRAWN[key] = draw(*given, **named)
            return DRAWN[key]

        return drawn

    for name in PLOTS:
        monkeypatch.setattr(plots, name, once(name, getattr(plots, name)))


@pytest.fixture
def run(made, drawn_once, tmp_path):
    """A finished run, to be changed."""
    return RunDir(shutil.copytree(made.path, tmp_path / made.path.name))


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished run, made once; never write into it."""
    rng = np.random.default_rng(0)
    run = RunDir(tmp_path_factory.mktemp("made") / "reviews-20250101-120000")
    run.path.mkdir()
    run.config.write_text(to_yaml(load_config({"data": {"train": "reviews.csv"}})), encoding="utf-8")
    prompt = {
        "template": "{text}\n情绪：",
        "language": "zh",
        "words": dict(zip(LABELS, ("愤怒", "快乐", "<i>"), strict=True)),
    }
    rates = {"wall_s": 205.0, "samples_per_s": 24.4, "tokens_per_s": 1012.3, "warmup_s": 0.0, "peak_memory_mib": 2310.5}
    run.update_record(
        schema=1,
        status="finished",
        started="2025-01-01T12:00:00+00:00",
        finished="2025-01-01T12:05:00+00:00",
        versions={"python": "3.11.7", "tonetune": "0.1.0"},
        run=str(run.path),
        train={**rates, "epochs": 3, "steps": 60},
        prompt=prompt,
        head_init="words",
    )
    write_json(run.labels, LabelSet(LABELS).as_dict())
    placement = {"device": {"value": "cpu", "reason": "no GPU found"}, "dtype": {"value": "float32", "reason": "a CPU"}}
    machine = {"cpu": {"model": "invented", "cores": 2}, "memory_gib": 15.6, "gpus": []}
    write_json(
        run.env, {"versions": {"python": "3.11.7", "torch": "2.13.0"}, "machine": machine, "placement": placement}
    )
    rows = {"rows": 720, "labels": dict.fromkeys(LABELS, 240)}
    write_json(
        run.data,
        {
            "splits": {"train": rows, "validation": rows, "test": rows},
            "dropped": {"empty text": 3, "repeated": 12},
            "leaks": {"exact": 0, "near": None},
            "files": [{"path": "reviews.csv", "sha256": "ab" * 32, "split": "train", "format": "csv", "rows": 2175}],
            "changed": {},
        },
    )
    write_training(run)
    write_evaluation(run, rng)
    return run
