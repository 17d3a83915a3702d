"""The command line as a person meets it: called in this process where speed demands it, else as its own program."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

MAX_ERROR_LINES = 12


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything beside it is an error of its own."""
        return json.loads(self.out)

    def error(self, *, code: int) -> dict[str, Any]:
        """The error document of a command with --json; the error as a person reads it is short and no traceback."""
        assert self.code == code, self.err
        document = self.document
        assert list(document) == ["error"]
        error: dict[str, Any] = document["error"]
        assert set(error) == {"type", "what", "where", "hint", "exit_code"}
        assert error["exit_code"] == code
        assert isinstance(error["what"], str) and error["what"]
        assert "Traceback" not in self.err
        shown = self.err[self.err.index("error: ") :].strip().splitlines()
        assert len(shown) <= MAX_ERROR_LINES
        return error


Cli = Callable[..., Result]


@contextmanager
def _stdin(content: bytes) -> Iterator[None]:
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")):
        yield


def call(*args: object, stdin: str | bytes = b"") -> Result:
    """Run `tonetune ARGS` in this process."""
    from tonetune.cli import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)  # JSON is UTF-8 whatever the locale
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    content = stdin.encode() if isinstance(stdin, str) else stdin
    argv = ["tonetune", *map(str, args)]
    with mock.patch.object(sys, "argv", argv), _stdin(content), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code: Any = 0
        except SystemExit as stop:
            code = stop.code or 0
    return Result(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Runs `tonetune ARGS` in this process; `stdin` is what it reads."""
    return call


def _heed_interrupts() -> None:
    """A shell starts its background jobs with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def program() -> Callable[..., subprocess.Popen[str]]:
    """Starts `python -m tonetune ARGS` with one thread; stdout and stderr are pipes."""

    def start(*args: object, **options: Any) -> subprocess.Popen[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-m", "tonetune", *map(str, args)]
        settings = {"text": True, "encoding": "utf-8", "env": environment, "preexec_fn": _heed_interrupts}
        return subprocess.Popen(command, **{**settings, **pipes, **options})

    return start


@pytest.fixture(scope="session")
def quick(tiny_gemma: Path) -> list[str]:
    """Flags of a training run on the tiny model that takes about a second and learns something."""
    settings = ("model.load_gate=off", "model.dtype=float32", "train.epochs=2", "train.learning_rate=0.01")
    return ["--model", str(tiny_gemma), *(part for setting in settings for part in ("--set", setting))]


@pytest.fixture(scope="session")
def trained(
    emotion_files: dict[str, Path], quick: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Result]:
    """`tonetune train --json` on one of the emotion files, by name, done once; its run is never written to."""
    root = tmp_path_factory.mktemp("runs")
    done: dict[str, Result] = {}

    def of(name: str) -> Result:
        if name not in done:
            flags = ["--set", f"run.dir={root}", "--set", "train.evaluate_every=5", "--json"]
            done[name] = call("train", "--data", emotion_files[name], *quick, *flags)
            assert done[name].code == 0, done[name].err
        return done[name]

    return of


@pytest.fixture(scope="session")
def run(trained: Callable[[str], Result]) -> Path:
    """The run directory of a training run on English CSV; never write into it."""
    return Path(trained("en.csv").document["run"])
