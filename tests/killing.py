"""Kill a training run at random moments, let it go on, and hold the result against that of a run left alone.

Usage: PYTHONPATH=src python tests/killing.py [--kills 20] [--seed 0] [--signals KILL,TERM,INT]

The run is real and small: a random two-layer model, dropout, four validations, a checkpoint every two steps. Its
processes are forked from this one, which has imported everything and computed nothing. Moments are drawn evenly from
all file operations in the run directory, or from the processor time of the run; a run that goes on may be killed again.
After each kill every file must be whole; at the end all files that a repeat reproduces must be equal, byte for byte.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import tiny
from safetensors import safe_open

from tonetune.api.train import train
from tonetune.config import load_config
from tonetune.errors import TonetuneError
from tonetune.lock import LOST, status_of
from tonetune.progress import SILENT
from tonetune.rundir import RunDir, read_json, read_jsonl
from tonetune.training.checkpoints import checkpoints_in, read_checkpoint

SETTINGS = {
    "model": {"load_gate": "off", "dtype": "float32"},
    "lora": {"dropout": 0.1, "rank": 2},
    "train": {"epochs": 2.5, "batch": 8, "learning_rate": 0.01, "evaluate_every": 4},
    "run": {"checkpoint_steps": 2, "checkpoint_minutes": None},
}
OWN = {
    "run.json",
    "env.json",
    "run.log",
    "watch.jsonl",
    "README.md",
    "report.html",
    "state.json",
    "manifest.json",
    ".lock",
}
"""Files that hold times, and the lock of a process that was killed in its last moment."""
PATIENCE_S = 300.0
HEAVY = (
    "jinja2",
    "matplotlib.figure",
    "peft",
    "transformers.models.gemma3.modeling_gemma3",
    "sklearn.linear_model",
    "tonetune.report.html",
    "scipy.stats",
)
"""What a run imports when it needs it."""


def forked(work: Callable[[], None]) -> int:
    """Start `work` in a child; its process id. The child ends with 0, or with the exit code of a deliberate error."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    except TonetuneError as error:
        code = error.exit_code
        if code != 130:
            print(error, file=sys.stderr)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Wait for a child; its exit code, negative for the signal that killed it."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


class Moments:
    """Counts the file operations below the working directory, and sends a signal before one of them."""

    def __init__(self, number: int | None = None, sent: int = signal.SIGKILL) -> None:
        self.seen, self._number, self._sent, self._here = 0, number, sent, f"{Path.cwd()}/"

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            return
        if str(arguments[0]).startswith(self._here):
            self.seen += 1
            if self.seen == self._number:
                os.kill(os.getpid(), self._sent)


def run_of(place: Path) -> RunDir | None:
    """The run below a place, None where it did not come to be one."""
    found = list(place.glob("runs/*/run.json"))
    return RunDir(found[0].parent) if found else None


def check_whole(run: RunDir) -> None:
    """Every file that is not hidden can be read, and so can every checkpoint."""
    for path in run.path.rglob("*"):
        if path.is_dir() or any(part.startswith(".") for part in path.relative_to(run.path).parts):
            continue
        if path.suffix == ".json":
            read_json(path)
        elif path.suffix == ".jsonl":
            read_jsonl(path)
        elif path.suffix == ".yaml":
            load_config(path)
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as tensors:
                assert list(tensors.keys()), path
    for path in checkpoints_in(run.checkpoints):
        read_checkpoint(path)


def results(run: RunDir) -> dict[str, bytes]:
    """The files that a repeat reproduces, by name."""
    files = {str(p.relative_to(run.path)): p for p in run.path.rglob("*") if p.is_file() and p.name not in OWN}
    return {name: path.read_bytes() for name, path in files.items()}


class Harness:
    """One run left alone, and others that are not."""

    def __init__(self, root: Path) -> None:
        for name in HEAVY:
            importlib.import_module(name)
        self.root = root
        self.model = root / "model"
        assert ended(forked(self.write_model)) == 0
        self.rows = tiny.write_rows(root / "rows.csv", tiny.emotion_rows("en", 64))
        self.config = {
            **SETTINGS,
            "model": {**SETTINGS["model"], "base": str(self.model)},
            "data": {"train": str(self.rows)},
        }
        place = root / "alone"
        began_s, counted = time.monotonic(), root / "counted.json"
        assert ended(self.start(place, counted=counted)) == 0
        self.wall_s = time.monotonic() - began_s
        self.operations, self.cpu_s = json.loads(counted.read_text())
        run = run_of(place)
        assert run is not None and read_json(run.record)["status"] == "finished"
        self.expected = results(run)
        assert {"metrics.jsonl", "adapter/adapter_model.safetensors", "best.json"} <= set(self.expected)

    def write_model(self) -> None:
        """In a child, so that this process has computed nothing."""
        tiny.write_model(self.model, "gemma3_text")

    def start(
        self,
        place: Path,
        *,
        resume: Path | None = None,
        moment: tuple[int, int] | None = None,
        counted: Path | None = None,
    ) -> int:
        """Start a run below `place`, or let one go on; `moment` is the number of an operation, and a signal."""

        def work() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            random.seed(0)  # Python gives each fork another one
            place.mkdir(exist_ok=True)
            os.chdir(place)
            moments = Moments(*moment) if moment else Moments()
            sys.addaudithook(moments)
            began_s = time.process_time()
            train(None if resume else self.config, reporter=SILENT, resume=resume)
            if counted:
                counted.write_text(json.dumps([moments.seen, time.process_time() - began_s]))

        return forked(work)

    def kill(self, place: Path, resume: Path | None, rng: random.Random, sent: signal.Signals) -> str:
        """Start or resume, and send a signal at a random moment; what was done."""
        if rng.random() < 0.5:
            number = rng.randint(1, self.operations)
            code = ended(self.start(place, resume=resume, moment=(number, sent)))
            return f"{sent.name} before operation {number:4} of {self.operations}, exit code {code}"
        limit_s = rng.uniform(0.0, self.cpu_s)
        child = self.start(place, resume=resume)
        process, end_s = psutil.Process(child), time.monotonic() + PATIENCE_S
        while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < end_s:
            if sum(process.cpu_times()[:2]) >= limit_s:
                process.send_signal(sent)
                break
            time.sleep(0.005)
        return f"{sent.name} after {limit_s:.2f} of {self.cpu_s:.2f} s, exit code {ended(child)}"

    def once(self, number: int, rng: random.Random, signals: list[signal.Signals]) -> list[str]:
        """Run, killed once or more and taken up again until done. Raises AssertionError where anything is lost."""
        place = self.root / f"killed-{number}"
        run, done = None, []
        while True:
            done.append(self.kill(place, run and run.path, rng, rng.choice(signals)))
            if (run := run_of(place)) is None:
                shutil.rmtree(place)  # nothing was begun
            else:
                check_whole(run)
                status = status_of(run)
                assert status in (LOST, "interrupted", "finished"), (status, done)
                done[-1] += f": {status}, {len(read_jsonl(run.metrics)) if run.metrics.is_file() else 0} events"
            if rng.random() < 0.7 or (run and status_of(run) == "finished"):
                break
        if run is None or status_of(run) != "finished":
            assert ended(self.start(place, resume=run and run.path)) == 0, done
        run = run_of(place)
        assert run is not None and status_of(run) == "finished", done
        found = results(run)
        differing = [name for name in found.keys() | self.expected if found.get(name) != self.expected.get(name)]
        assert differing == [], (done, differing)
        shutil.rmtree(place)
        return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="runs that are killed, at least once each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signals", default="KILL", help="KILL, TERM, INT, separated by commas")
    options = parser.parse_args()
    signals = [signal.Signals[f"SIG{name}"] for name in options.signals.split(",")]
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="tonetune-killing-") as root:
        harness = Harness(Path(root).resolve())
        print(f"left alone: {harness.wall_s:.1f} s, {harness.operations} file operations", flush=True)
        for number in range(options.kills):
            for line in harness.once(number, rng, signals):
                print(f"{number:3}  {line}", flush=True)
    print(f"{options.kills} runs, all equal to the one left alone")


if __name__ == "__main__":
    main()
