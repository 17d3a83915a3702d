"""The plan of a run is what the run then does: its parameters, its cuts, its choices; a config.json is enough."""

import json
from pathlib import Path

import numpy as np
import pytest

from tonetune.api import plan as planning
from tonetune.api.plan import plan
from tonetune.errors import ConfigError, DataError, ModelError

TRAIN_ROWS = 136  # of the 200 of an emotion file
KEYS = {
    "parameters": {"total", "trainable", "head"},
    "memory_mib": {"weights", "adapter", "optimizer", "activations", "other", "total"},
    "micro_batches_per_step": {"mean", "max"},
    "estimate": {"step_s", "steps", "train_s", "cost", "basis"},
}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def bare(tiny_gemma, tmp_path) -> Path:
    """A model directory with nothing but config.json."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((tiny_gemma / "config.json").read_bytes())
    return tmp_path / "bare"


def document(base: Path, *overrides: str, **how: object) -> dict:
    found = plan(overrides=[f"model.base={base}", "model.load_gate=off", "model.dtype=float32", *overrides], **how)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_a_config_is_enough(bare):
    found = document(bare)
    for key, names in KEYS.items():
        assert set(found[key]) == names
    assert found["parameters"]["head"] == 2 * 32
    memory = dict(found["memory_mib"])
    assert memory.pop("total") == pytest.approx(sum(memory.values()), abs=0.5)
    assert found["measured"] is None
    assert found["estimate"]["steps"] is found["estimate"]["train_s"] is found["estimate"]["cost"] is None
    assert any("names no rows" in reason for reason in found["reasons"])
    assert any("2 labels are assumed" in reason for reason in found["reasons"])


def test_without_rows_every_text_is_counted_as_the_longest(bare):
    found = document(bare, "train.batch=10", "data.max_length=100", "train.micro_batch_tokens=300")
    assert found["micro_batches_per_step"] == {"mean": 4.0, "max": 4}
    assert found["largest_batch_texts"] > 10


@pytest.mark.parametrize("language", ["en", "zh"])
def test_with_rows_it_is_cut_as_training_cuts_it(tiny_gemma, emotion_files, language, monkeypatch):
    cuts = []
    real = planning.cut
    monkeypatch.setattr(planning, "cut", lambda lengths, **how: cuts.append(real(lengths, **how)) or cuts[-1])
    found = document(
        tiny_gemma, f"data.train={emotion_files[f'{language}.csv']}", "train.batch=16", "train.micro_batch_tokens=128"
    )
    counts = [len(parts) for parts in cuts]
    assert len(counts) == -(-TRAIN_ROWS // 16)
    assert sum(len(part) for parts in cuts for part in parts) == TRAIN_ROWS
    assert found["micro_batches_per_step"] == {"mean": pytest.approx(np.mean(counts)), "max": max(counts)}
    assert found["estimate"]["steps"] == 3 * len(counts)
    assert found["parameters"]["head"] == 4 * 32


@pytest.mark.slow
def test_it_has_the_numbers_of_the_run(tiny_gemma, emotion_files, tmp_path):
    from tonetune.api.train import train

    settings = {
        "model": {"base": str(tiny_gemma), "load_gate": "off", "dtype": "float32"},
        "data": {"train": str(emotion_files["en.csv"])},
        "train": {"epochs": 0.5},
        "run": {"dir": str(tmp_path)},
    }
    found = plan(settings)
    run = train(settings)
    adapters = json.loads((run.path / "adapters.json").read_text())
    assert found["parameters"] == {key: adapters[key] for key in ("total", "trainable", "head")}
    assert found["estimate"]["steps"] == run.summary["train"]["steps"]
    placement = json.loads((run.path / "env.json").read_text())["placement"]
    assert placement["checkpointing"]["value"] == found["checkpointing"]
    assert placement["micro_batch_tokens"]["value"] == found["micro_batch_tokens"]
    assert all(choice["reason"] for choice in placement.values())
    assert placement["pinned_memory"]["value"] is False


def test_one_real_step_gives_the_time_and_the_cost(tiny_gemma, emotion_files):
    rows = f"data.train={emotion_files['en.csv']}"
    found = document(tiny_gemma, rows, "run.price_per_hour=3600", measure=True)
    estimate, measured = found["estimate"], found["measured"]
    assert estimate["basis"] == "one measured step" and measured["peak_memory_mib"] >= 0
    assert 0 < estimate["step_s"] <= measured["step_s"] * 1.0001, "the fullest step was measured"
    assert (
        estimate["cost"] == pytest.approx(estimate["train_s"]) == pytest.approx(estimate["step_s"] * estimate["steps"])
    )


@pytest.mark.slow
def test_less_memory_gives_smaller_passes_and_then_checkpointing(bare, monkeypatch):
    def on(available_mib: float) -> dict:
        monkeypatch.setattr("tonetune.api.setup.available_bytes", lambda device: int(available_mib * 2**20))
        return document(bare)

    memory = on(1e6)["memory_mib"]
    base = memory["total"] - memory["activations"] * 2
    roomy, tight, least = (on(base + memory["activations"] * part) for part in (2.1, 1.1, 0.35))
    assert (roomy["micro_batch_tokens"], roomy["checkpointing"]) == (1024, False)
    assert (tight["micro_batch_tokens"], tight["checkpointing"]) == (512, False)
    assert least["checkpointing"]
    assert all(d["memory_mib"]["total"] <= d["available_mib"] + 1 for d in (roomy, tight, least))
    assert roomy["largest_batch_texts"] == 4


def test_rows_without_a_tokenizer_are_counted_as_the_longest(bare, emotion_files):
    found = document(bare, f"data.train={emotion_files['en.csv']}", "data.max_length=64", "train.batch=16")
    assert any("no tokenizer.json" in reason for reason in found["reasons"])
    assert found["estimate"]["steps"] == 3 * -(-TRAIN_ROWS // 16) and found["parameters"]["head"] == 4 * 32


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemma2", "gemma4"])
def test_other_families_have_plans(tiny_model, family):
    assert document(tiny_model(family))["memory_mib"]["activations"] > 0


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        (["data.train=absent.csv"], DataError),
        (["lora.targets=[nothing]"], ConfigError),
        (["train.compile=true"], ConfigError),
        (["lora.rank=0"], ConfigError),
    ],
)
def test_what_a_run_would_refuse_the_plan_refuses(bare, overrides, error):
    with pytest.raises(error):
        document(bare, *overrides)


def test_a_directory_without_a_config_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        document(tmp_path)


@pytest.mark.slow
def test_packed_weights_take_less_and_are_not_measured(bare):
    plain, packed = document(bare), document(bare, "model.quantization=8bit")
    assert packed["memory_mib"]["weights"] <= plain["memory_mib"]["weights"]
    with pytest.raises(ConfigError, match="not packed"):
        document(bare, "model.quantization=8bit", measure=True)
