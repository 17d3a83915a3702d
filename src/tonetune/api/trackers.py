"""Experiment trackers through accelerate: steps and scores of a run in TensorBoard, MLflow and others, kept here."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tonetune.config import RunConfig
from tonetune.errors import UsageError
from tonetune.progress import Reporter
from tonetune.rundir import RunDir, writing

PROJECT = "tonetune"
STAY_HERE = {
    "WANDB_MODE": "offline",
    "WANDB_ERROR_REPORTING": "false",
    "SWANLAB_MODE": "offline",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GRADIO_ANALYTICS_ENABLED": "False",
}
"""Variables of the trackers by which nothing leaves the machine; what a user has set is left as it is."""


def refuse_missing_trackers(names: Sequence[str]) -> None:
    """Raises UsageError for a tracker whose package, or whose place in accelerate, is missing."""
    for name in names:
        if find_spec(name) is None:
            hint = f"pip install {name}, or take it out of run.trackers"
            raise UsageError(f"the tracker {name} is not installed", where="run.trackers", hint=hint)
    if names:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        unknown = [name for name in names if name not in LOGGER_TYPE_TO_CLASS]
        if unknown:
            what = f"the installed accelerate does not know the tracker {unknown[0]}"
            raise UsageError(what, where="run.trackers", hint="pip install -U accelerate")


class Trackers:
    """The trackers of one run. One that fails is said and switched off: a run is worth more than its tracker."""

    def __init__(self, reporter: Reporter) -> None:
        """None at all; see `trackers`."""
        self._reporter = reporter
        self._running: dict[str, Any] = {}
        self._step = 0

    def start(self, name: str, tracker: Any, settings: Mapping[str, Any]) -> None:
        """Add a tracker of accelerate's and give it the config's values."""
        self._running[name] = tracker
        with self._switched_off_where_it_fails(name):
            tracker.start()
            tracker.store_init_configuration(dict(settings))

    def log(self, section: str, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """The numbers among `values` after `step`, or the latest one, named "section/name"."""
        self._step = self._step if step is None else step
        numbers = {f"{section}/{name}": value for name, value in values.items() if _is_number(value)}
        for name, tracker in list(self._running.items()):
            with self._switched_off_where_it_fails(name):
                tracker.log(numbers, step=self._step)

    def finish(self) -> None:
        """Let each tracker write what it holds."""
        for name, tracker in list(self._running.items()):
            with self._switched_off_where_it_fails(name):
                tracker.finish()

    @contextlib.contextmanager
    def _switched_off_where_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # other people's clients raise what they like
            del self._running[name]
            self._reporter.say(f"warning: the tracker {name} is switched off: {type(error).__name__}: {error}")


@contextlib.contextmanager
def trackers(config: RunConfig, run: RunDir, reporter: Reporter) -> Iterator[Trackers]:
    """The trackers that a config names, started for a run and finished at its end, however it ends.

    They write below `run.dir`/trackers, where runs stand beside each other, and send nothing unless their own
    environment variables say so.
    """
    every = Trackers(reporter)
    place = Path(config.run.dir).expanduser().resolve() / "trackers"
    with _variables(place) if config.run.trackers else contextlib.nullcontext():
        for name in config.run.trackers:
            every.start(name, _tracker(name, run.name, place), _flat(config))
        try:
            yield every
        finally:
            every.finish()


def _tracker(name: str, run: str, place: Path) -> Any:
    """accelerate's tracker of that name, not yet started."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    directory = place / name
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    make = LOGGER_TYPE_TO_CLASS[name]
    if name == "tensorboard":
        return make(run, str(directory))
    named: dict[str, dict[str, str]] = {
        "mlflow": {"run_name": run},
        "wandb": {"name": run, "dir": str(directory)},
        "trackio": {"name": run},
        "swanlab": {"experiment_name": run, "logdir": str(directory)},
    }
    return make(PROJECT, **named[name])


@contextlib.contextmanager
def _variables(place: Path) -> Iterator[None]:
    """Set what a user has not set, and take it back."""
    database = place / "mlflow" / "mlflow.db"
    wanted = {
        **STAY_HERE,
        "MLFLOW_TRACKING_URI": f"sqlite:///{database}",
        "TRACKIO_DIR": str(place / "trackio"),
    }
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _flat(config: RunConfig) -> dict[str, Any]:
    """Every value of the config by dotted key; what is no number, text or truth value is spelled as text."""
    values = config.flat().items()
    return {name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in values}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
