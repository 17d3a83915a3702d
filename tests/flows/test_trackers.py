"""Trackers: what a run measures is in TensorBoard too, nothing leaves the machine, and one that fails ends no run."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from tonetune.api.trackers import STAY_HERE, Trackers, refuse_missing_trackers, trackers
from tonetune.config import load_config
from tonetune.errors import UsageError
from tonetune.progress import SILENT
from tonetune.rundir import RunDir

NAMES = ("tensorboard", "mlflow", "wandb", "trackio", "swanlab")


@pytest.mark.slow
def test_tensorboard_holds_what_the_run_measured(
    cli: Any, quick: list[str], emotion_files: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra trackers")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = ["run.trackers=[tensorboard]", f"run.dir={tmp_path}", "train.epochs=1"]
    flags = [part for setting in settings for part in ("--set", setting)]
    result = cli("train", "--data", emotion_files["en.csv"], *quick, *flags, "--json")
    assert result.code == 0 and "switched off" not in result.err
    run = Path(result.document["run"])
    events = EventAccumulator(str(tmp_path / "trackers/tensorboard" / run.name)).Reload()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for section, kind in (("train", "step"), ("validation", "validation")):
        written = [(line["step"], line["loss"]) for line in lines if line["event"] == kind]
        shown = [(scalar.step, scalar.value) for scalar in events.Scalars(f"{section}/loss")]
        assert [step for step, _ in shown] == [step for step, _ in written]
        assert all(math.isclose(a, b, rel_tol=1e-5) for (_, a), (_, b) in zip(shown, written, strict=True))
    (best,) = events.Scalars("best_test/accuracy")
    assert math.isclose(best.value, result.document["tuned"]["accuracy"], rel_tol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_that_is_not_installed_is_refused_with_its_pip_line(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("tonetune.api.trackers.find_spec", lambda package: None)
    with pytest.raises(UsageError, match=f"the tracker {name} is not installed") as error:
        refuse_missing_trackers([name])
    assert error.value.where == "run.trackers" and error.value.hint.startswith(f"pip install {name},")


def test_nothing_is_written_for_a_run_whose_tracker_is_missing(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tonetune.api.trackers.find_spec", lambda package: None)
    error = cli("train", "--set", "run.trackers=[wandb]", "--set", f"run.dir={tmp_path / 'runs'}", "--json")
    assert "pip install wandb" in error.error(code=2)["hint"] and not (tmp_path / "runs").exists()


class Recorder:
    """What accelerate's trackers are: made with a project, started, told, finished."""

    def __init__(self, project: str, **settings: str) -> None:
        self.project, self.settings, self.told, self.environment = project, settings, [], {}

    def start(self) -> None:
        self.environment = dict(os.environ)

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.values = values

    def log(self, values: dict[str, float], step: int) -> None:
        if math.isnan(values.get("train/loss", 0)):
            raise ConnectionError("the server is away")
        self.told.append((step, values))

    def finish(self) -> None:
        self.told.append("finished")


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_tracker_is_one_of_accelerate_s_and_stays_here(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    from accelerate import tracking

    assert tracking.LOGGER_TYPE_TO_CLASS[name].name == name
    made: list[Recorder] = []
    monkeypatch.setitem(
        tracking.LOGGER_TYPE_TO_CLASS, name, lambda project, **how: made.append(Recorder(project, **how)) or made[-1]
    )
    monkeypatch.setenv("WANDB_MODE", "online")  # a user's own word counts
    config = load_config({"run": {"trackers": [name], "dir": str(tmp_path)}, "lora": {"rank": 4}})
    run = RunDir.create(tmp_path, name="fake")
    before = dict(os.environ)
    with trackers(config, run, SILENT) as tracked:
        tracked.log("train", {"loss": 0.5, "event": "step", "ok": True}, step=3)
        tracked.log("best_test", {"accuracy": 0.9})
    (recorder,) = made
    assert recorder.told == [(3, {"train/loss": 0.5}), (3, {"best_test/accuracy": 0.9}), "finished"]
    assert recorder.project == "tonetune" and run.path.name in recorder.settings.values()
    assert recorder.values["lora.rank"] == 4
    assert all(isinstance(value, (bool, int, float, str)) for value in recorder.values.values())
    assert recorder.environment["WANDB_MODE"] == "online"
    assert {**STAY_HERE, "WANDB_MODE": "online"}.items() <= recorder.environment.items()
    assert str(tmp_path) in recorder.environment["MLFLOW_TRACKING_URI"]
    assert dict(os.environ) == before


def test_runs_of_one_seed_have_names_of_their_own(tmp_path: Path, monkeypatch: Any) -> None:
    from accelerate import tracking

    made: list[Recorder] = []
    monkeypatch.setitem(
        tracking.LOGGER_TYPE_TO_CLASS, "wandb", lambda project, **how: made.append(Recorder(project, **how)) or made[-1]
    )
    config = load_config({"run": {"trackers": ["wandb"], "dir": str(tmp_path)}})
    for whole in ("first", "second"):
        run = RunDir.at(RunDir(tmp_path / whole).seed(42))
        with trackers(config, run, SILENT):
            pass
    assert [recorder.settings["name"] for recorder in made] == ["first-seed-42", "second-seed-42"]


def test_a_tracker_that_fails_is_switched_off_and_said() -> None:
    said: list[str] = []
    tracked = Trackers(SILENT)
    tracked._reporter = type("Reporter", (), {"say": lambda self, line: said.append(line)})()
    good, bad = Recorder("a"), Recorder("b")
    tracked.start("wandb", bad, {})
    tracked.log("train", {"loss": 1.0}, step=1)
    tracked.start("trackio", good, {})
    tracked.log("train", {"loss": float("nan")}, step=2)
    assert "ConnectionError: the server is away" in said[0] and len(said) == 2
    tracked.finish()
    assert "finished" not in bad.told + good.told
