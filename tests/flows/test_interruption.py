"""Stopped from outside: a run says so, its files are whole, and nothing lies about."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny

from tonetune.training.checkpoints import newest_whole

pytestmark = pytest.mark.slow

LONG = ("--set", "train.epochs=2000", "--set", "train.batch=8")
PATIENCE_S = 90.0


@pytest.fixture
def begun(
    program: Callable[..., subprocess.Popen[str]], quick: list[str], tmp_path: Path
) -> Callable[..., tuple[subprocess.Popen[str], Path]]:
    """Starts a run that would take hours; the child and its run directory, once the first steps are done."""

    def begin(*flags: str) -> tuple[subprocess.Popen[str], Path]:
        data = tiny.write_rows(tmp_path / "rows.csv", tiny.emotion_rows("en", 60))
        child = program("train", "--data", data, *quick, *LONG, "--set", f"run.dir={tmp_path}/runs", *flags)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and child.poll() is None:
            if metrics := list(tmp_path.glob("runs/*/metrics.jsonl")):
                return child, metrics[0].parent
            time.sleep(0.05)
        raise AssertionError(child.communicate()[1])

    return begin


def assert_whole(run: Path) -> None:
    """Every JSON document parses, so does every line, and no temporary file is left."""
    assert list(run.rglob(".*")) == []
    files = [path for path in run.rglob("*") if path.suffix in (".json", ".jsonl")]
    assert len(files) > 5
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            json.loads(text)
        else:
            assert not text or text.endswith("\n")
            for line in text.splitlines():
                json.loads(line)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_so(begun: Any, cli: Any, number: signal.Signals) -> None:
    child, run = begun("--json")
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130, err
    error = json.loads(out)["error"]
    assert (error["type"], error["exit_code"], error["where"]) == ("InterruptedRun", 130, str(run))
    assert "Traceback" not in err
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert record["status"] == "interrupted" and record["finished"] >= record["started"]
    assert_whole(run)
    assert error["hint"].endswith(f"go on with: tonetune train --resume {run}")
    found, damaged = newest_whole(run / "checkpoints")
    assert found is not None and damaged == []  # of the last step that was done, though none was due
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found.step == max(event["step"] for event in events)
    assert "interrupted" not in cli("evaluate", run, "--json").error(code=3)["what"]


def test_a_person_gets_one_line(begun: Any) -> None:
    child, _ = begun()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (130, "")
    assert "interrupted" in err.splitlines()[-2] and "Traceback" not in err


def test_a_killed_run_leaves_whole_files(begun: Any) -> None:
    child, run = begun("--json")
    child.kill()
    child.communicate(timeout=PATIENCE_S)
    for path in run.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["status"] == "running"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_before_it_begins_it_leaves_nothing(
    program: Any, quick: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    data = tiny.write_rows(tmp_path / "rows.csv", tiny.emotion_rows("en", 60))
    child = program("train", "--data", data, *quick, "--set", f"run.dir={tmp_path}/runs", "--json")
    time.sleep(1.5)  # while it imports
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE_S)
    if not (tmp_path / "runs").exists():
        assert child.returncode == 130, err
        assert json.loads(out)["error"]["exit_code"] == 130
