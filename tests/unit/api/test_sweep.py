"""Laws of the sweep: every point once, nothing finished is done again, and the best is best on validation."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("optuna", reason="needs the extra sweep")

from tonetune.api import sweep as module
from tonetune.api.sweep import Knob, sweep
from tonetune.config import load_config, to_yaml
from tonetune.errors import ConfigError, TrainingError, UsageError
from tonetune.labels import LabelSet
from tonetune.rundir import RunDir, write_json, write_jsonl

CONFIG = {"data": {"train": "rows.csv"}}
LABELS = ("bad", "good")


class Trainer:
    """Stands in for `train`: a run whose model is the better the nearer its rank is to 8; counts its calls."""

    def __init__(self, *, killed_at=None, fails_with=None):
        self.ranks, self.killed_at, self.fails_with = [], killed_at, fails_with

    def __call__(self, config, *, overrides, reporter, on_validation):
        settings = load_config(config.model_dump(), overrides=overrides)
        if len(self.ranks) == self.killed_at:
            raise KeyboardInterrupt
        self.ranks.append(settings.lora.rank)
        share = 0.9 - 0.05 * abs(settings.lora.rank - 8) ** 0.5
        for step in (1, 2):
            on_validation(step, {"macro_f1": share, "accuracy": share})
        if settings.lora.rank == self.fails_with:
            raise TrainingError("loss is nan")
        run = RunDir.create(Path(settings.run.dir), name="fake")
        run.update_record(status="finished")
        run.config.write_text(to_yaml(settings), encoding="utf-8")
        write_json(run.labels, LabelSet(LABELS).as_dict())
        rows = [{"text": f"text {i}", "gold": LABELS[i % 2], "label": LABELS[(i + (i >= share * 400)) % 2],
                 "confidence": 0.9} for i in range(400)]  # fmt: skip
        ends = [share - 0.03, share + 0.03]
        tuned = {"accuracy": share, "accuracy_ci95": ends, "macro_f1": share, "macro_f1_ci95": ends, "n": 400}
        for split in ("validation", "test"):
            write_jsonl(run.evaluation(split) / "predictions.jsonl", rows)
            write_json(run.evaluation(split) / "report.json", {"tuned": tuned})
        write_json(run.best, {"step": 2, "metric": "macro_f1", "value": share})
        return SimpleNamespace(path=run.path)


def swept(monkeypatch, tmp_path, trainer, **settings):
    monkeypatch.setattr(module, "train", trainer)
    return sweep(CONFIG, out=tmp_path / "sweep", **{"tries": ["lora.rank=2,4,8,16"], **settings})


@pytest.mark.slow
def test_a_grid_makes_every_point_once_and_names_the_best(monkeypatch, tmp_path):
    trainer = Trainer()
    document = swept(monkeypatch, tmp_path, trainer, tries=["lora.rank=4,8", "lora.dropout=0,0.1"])
    changes = [trial["changes"] for trial in document["trials"]]
    assert changes == [{"lora.rank": r, "lora.dropout": d} for r in ("4", "8") for d in ("0", "0.1")]
    assert document["best"]["changes"]["lora.rank"] == "8"
    assert document["best"]["test"]["n"] == 400 and "test" not in document["trials"][0]
    for trial in document["trials"]:
        assert trial["state"] == "finished" and trial["ci95"][0] <= trial["value"] <= trial["ci95"][1]
        assert RunDir.open(trial["run"]).path.parent == tmp_path / "sweep" / "runs"
    json.dumps(document)


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_and_repeats_nothing_finished(monkeypatch, tmp_path):
    killed = Trainer(killed_at=2)
    with pytest.raises(KeyboardInterrupt):
        swept(monkeypatch, tmp_path, killed)
    assert killed.ranks == [2, 4]
    resumed = Trainer()
    document = swept(monkeypatch, tmp_path, resumed)
    assert resumed.ranks == [8, 16]
    assert [trial["changes"]["lora.rank"] for trial in document["trials"]] == ["2", "4", "8", "16"]
    again = Trainer()
    assert swept(monkeypatch, tmp_path, again) == document and again.ranks == []


@pytest.mark.slow
def test_a_sweep_killed_by_the_system_goes_on_and_repeats_nothing_finished(monkeypatch, tmp_path):
    """SIGKILL in the middle of the third run: no handler runs, and the study's last trial stays "running"."""
    program = f"""
import os, signal, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(module.__file__).parents[2])]!r}
import test_sweep

class Killed(test_sweep.Trainer):
    def __call__(self, config, *, on_validation, **how):
        def killed(step, scores):
            on_validation(step, scores)
            if len(self.ranks) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(config, on_validation=killed, **how)

test_sweep.module.train = Killed()
test_sweep.sweep(test_sweep.CONFIG, out={str(tmp_path / "sweep")!r}, tries=["lora.rank=2,4,8,16"])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    resumed = Trainer()
    document = swept(monkeypatch, tmp_path, resumed)
    assert resumed.ranks == [8, 16]
    finished = [trial["changes"]["lora.rank"] for trial in document["trials"] if trial["state"] == "finished"]
    assert finished == ["2", "4", "8", "16"]


@pytest.mark.slow
def test_a_sampler_makes_the_number_of_trials_it_is_told_in_all(monkeypatch, tmp_path):
    settings = {"tries": ["lora.rank=2,4,8,16,32", "train.learning_rate=1e-4..1e-2"], "sampler": "random"}
    with pytest.raises(KeyboardInterrupt):
        swept(monkeypatch, tmp_path, Trainer(killed_at=3), trials=6, **settings)
    document = swept(monkeypatch, tmp_path, Trainer(), trials=6, **settings)
    rates = [float(trial["changes"]["train.learning_rate"]) for trial in document["trials"]]
    assert len(rates) == len(set(rates)) == 6 and all(1e-4 <= rate <= 1e-2 for rate in rates)
    more = swept(monkeypatch, tmp_path, Trainer(), trials=8, **settings)
    assert more["trials"][:6] == document["trials"] and len(more["trials"]) == 8


@pytest.mark.slow
def test_those_that_fall_behind_are_ended_early(monkeypatch, tmp_path):
    document = swept(monkeypatch, tmp_path, Trainer(), tries=["lora.rank=1,8,64,128"], sampler="random", trials=10)
    states = {trial["state"] for trial in document["trials"]}
    assert states == {"finished", "pruned"}
    best = max(t["value"] for t in document["trials"] if t["run"])
    assert document["best"]["value"] == best


@pytest.mark.slow
def test_an_ablation_changes_one_thing_at_a_time_and_tests_it_against_the_base(monkeypatch, tmp_path):
    trainer = Trainer()
    document = swept(monkeypatch, tmp_path, trainer, tries=["lora.rank=2,8", "head.init=words,random"], ablation=True)
    base, *others = document["trials"]
    assert base["changes"] == {} and "against_base" not in base
    assert [trial["changes"] for trial in others] == [{"lora.rank": "2"}, {"head.init": "random"}]  # 8 is the base
    worse, same = (trial["against_base"] for trial in others)
    assert worse["difference"] < 0 and worse["p_value"] < 0.05
    assert same["difference"] == 0 and same["p_value"] == 1


@pytest.mark.slow
def test_an_ablation_knows_what_to_change(monkeypatch, tmp_path):
    document = swept(monkeypatch, tmp_path, Trainer(), tries=[], ablation=True)
    assert len(document["trials"]) == 1 + 1 + 2 + 1 + 1 + 2


@pytest.mark.slow
def test_a_run_that_fails_is_a_trial_and_not_the_end(monkeypatch, tmp_path):
    document = swept(monkeypatch, tmp_path, Trainer(fails_with=4))
    failed = document["trials"][1]
    assert (failed["state"], failed["error"], failed["run"], failed["value"]) == ("failed", "loss is nan", None, None)
    assert len(document["trials"]) == 4
    again = Trainer()
    assert swept(monkeypatch, tmp_path, again) == document and again.ranks == []


@pytest.mark.slow
def test_another_sweep_is_not_mixed_in(monkeypatch, tmp_path):
    swept(monkeypatch, tmp_path, Trainer())
    with pytest.raises(UsageError, match="another sweep lies here"):
        swept(monkeypatch, tmp_path, Trainer(), tries=["lora.rank=2,4"])
    with pytest.raises(UsageError, match="another sweep lies here"):
        swept(monkeypatch, tmp_path, Trainer(), overrides=["train.epochs=1"])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"tries": []}, "nothing to vary"),
        ({"tries": ["lora.rank="]}, "no values"),
        ({"tries": ["train.learning_rate=a..b"]}, "no range"),
        ({"tries": ["train.learning_rate=1e-4..1e-3"], "sampler": "grid"}, "is a range"),
        ({"tries": ["train.learning_rate=1e-4..1e-3"]}, "needs a number of trials"),
        ({"sampler": "bayes"}, "no sampler 'bayes'"),
        ({"tries": ["train.seed=1,2"], "ablation": True}, "changes the rows"),
    ],
)
def test_questions_without_sense_are_refused(monkeypatch, tmp_path, settings, error):
    with pytest.raises(UsageError, match=error):
        swept(monkeypatch, tmp_path, Trainer(), **settings)
    assert not (tmp_path / "sweep").exists()


def test_values_that_the_config_does_not_take_are_refused_before_the_first_run(monkeypatch, tmp_path):
    trainer = Trainer()
    with pytest.raises(ConfigError, match=r"lora\.rank"):
        swept(monkeypatch, tmp_path, trainer, tries=["lora.rank=8,none"])
    with pytest.raises(ConfigError, match="rnak"):
        swept(monkeypatch, tmp_path, trainer, tries=["lora.rnak=8"])
    assert trainer.ranks == []


def test_knobs_are_read_as_written():
    assert Knob.parse("lora.rank=4, 8,8") == Knob("lora.rank", ("4", "8"))
    assert Knob.parse("train.learning_rate=1e-4..1e-3") == Knob("train.learning_rate", low=1e-4, high=1e-3)
