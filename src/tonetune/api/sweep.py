"""Many runs of one config with keys changed: a grid, a sampler's choice, or one change at a time; to be resumed."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.api.compare import compare
from tonetune.api.train import train
from tonetune.config import RunConfig, load_config, to_yaml
from tonetune.data.splits import TEST, VALIDATION
from tonetune.errors import DeviceError, DiskError, InterruptedRun, MissingExtraError, TrainingError, UsageError
from tonetune.progress import Reporter, default_reporter
from tonetune.rundir import RunDir, read_json, writing

STUDY = "sweep.db"
SAMPLERS = ("grid", "random", "tpe")
STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
BEHIND = "behind half of the trials so far"
WIDE = 10.0
"""A range whose ends differ by this factor is searched on a scale of logarithms."""

ABLATION = (
    "head.init=words,random",
    "lora.rank=4,8,16",
    "lora.targets=attention,all-linear",
    "lora.dropout=0,0.1",
    "train.learning_rate=2e-4,5e-4,1e-3",
)
"""What an ablation changes where it is not told, each value alone; the config's own values are the base."""

Changes = dict[str, str]


@dataclass(frozen=True)
class Knob:
    """A config key to vary: among `choices`, as they would stand in an override, or from `low` to `high`."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Knob":
        """Read "lora.rank=4,8,16" or "train.learning_rate=1e-4..1e-3". Raises UsageError for what is neither."""
        key, _, values = text.partition("=")
        low, dots, high = values.partition("..")
        try:
            if dots:
                return cls(key, low=float(low), high=float(high))
        except ValueError:
            raise UsageError(f"{values!r} is no range of numbers", where=f"--try {text}") from None
        choices = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
        if not choices:
            raise UsageError("no values to try", where=f"--try {text}", hint="--try lora.rank=4,8,16")
        return cls(key, choices)

    @property
    def ends(self) -> tuple[str, ...]:
        """Values by which to check that the config takes the key."""
        return self.choices or (f"{self.low:g}", f"{self.high:g}")

    def suggest(self, trial: Any) -> str:
        """Let an Optuna trial choose."""
        if self.choices:
            return str(trial.suggest_categorical(self.key, self.choices))
        log = self.low > 0 and self.high / self.low >= WIDE
        return f"{trial.suggest_float(self.key, self.low, self.high, log=log):.4g}"


def sweep(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    tries: Sequence[str] = (),
    overrides: Sequence[str] = (),
    sampler: str | None = None,
    trials: int | None = None,
    ablation: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Train the config with keys changed as `tries` say, and return the document of `sweep --json`.

    A grid of all values, or `trials` runs by a `sampler` (random, tpe), which ends those that fall behind on
    validation; with `ablation` the config as it is and each value alone. Runs lie in `out`, with the study's SQLite
    file: the same call again goes on where it was ended. Trials are judged by validation; the test result is shown
    of the best one alone. Raises MissingExtraError without Optuna, UsageError for a question that makes no sense,
    ConfigError for values that do not fit.
    """
    knobs = [Knob.parse(text) for text in tries or (ABLATION if ablation else ())]
    sampler = sampler or ("tpe" if trials or any(not knob.choices for knob in knobs) else "grid")
    _check(knobs, sampler=sampler, trials=trials, ablation=ablation)
    base = load_config(config, overrides=overrides)
    for knob in knobs:
        for value in knob.ends:
            load_config(base.model_dump(), overrides=[f"{knob.key}={value}"])
    work = _Sweep(base, Path(out).expanduser().resolve(), knobs, sampler, ablation, reporter or default_reporter())
    for point in work.points(trials):
        work.run(point)
    return work.document()


def _check(knobs: Sequence[Knob], *, sampler: str, trials: int | None, ablation: bool) -> None:
    if not knobs:
        raise UsageError("there is nothing to vary", where="sweep", hint="--try lora.rank=4,8,16, or --ablation")
    if sampler not in SAMPLERS:
        raise UsageError(f"no sampler {sampler!r}; there are {', '.join(SAMPLERS)}", where="--sampler")
    ranges = [knob.key for knob in knobs if not knob.choices]
    if ranges and (ablation or sampler == "grid"):
        raise UsageError(f"{ranges[0]} is a range: name its values", where="--try", hint=f"{ranges[0]}=A,B,C")
    moved = [knob.key for knob in knobs if knob.key.startswith("data.") or knob.key == "train.seed"]
    if ablation and moved:
        raise UsageError(f"{moved[0]} changes the rows, so that runs are no longer comparable", where="--try")
    if trials is None and sampler != "grid" and not ablation:
        raise UsageError(f"the sampler {sampler} needs a number of trials", where="sweep", hint="--trials 20")


class _Sweep:
    """A study on disk and the runs of its trials.

    A trial that is finished, pruned or failed by its own fault is done; one that was interrupted is made again.
    """

    def __init__(
        self, base: RunConfig, out: Path, knobs: Sequence[Knob], sampler: str, ablation: bool, reporter: Reporter
    ) -> None:
        try:
            import optuna
        except ImportError:
            raise MissingExtraError("sweep", needed_for="tonetune sweep") from None
        self.base, self.out, self.knobs, self.reporter = base, out, knobs, reporter
        self.method = "ablation" if ablation else sampler
        self.metric = base.evaluate.select_by
        self.states = optuna.trial.TrialState
        self.study = self._study(optuna)
        for trial in self.study.get_trials(states=[self.states.RUNNING, self.states.WAITING]):
            self.study.tell(trial.number, state=self.states.FAIL)

    def _study(self, optuna: Any) -> Any:
        """The study in `out`, made or found. Raises UsageError where it is one of another config or of other values."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with writing(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=f"sqlite:///{self.out / STUDY}",
            study_name="sweep",
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
            load_if_exists=True,
        )
        seed = self.base.train.seed + len(study.trials)  # a sampler that is made again must not repeat itself
        samplers = {"tpe": optuna.samplers.TPESampler}
        study.sampler = samplers.get(self.method, optuna.samplers.RandomSampler)(seed=seed)
        meaning = {"config": to_yaml(self.base), "knobs": list(map(str, self.knobs)), "method": self.method}
        if study.user_attrs and study.user_attrs != meaning:
            raise UsageError("another sweep lies here", where=str(self.out), hint="name a new directory with --out")
        for name, value in meaning.items():
            study.set_user_attr(name, value)
        return study

    def done(self) -> list[Any]:
        """The trials that count, in order."""
        return [t for t in self.study.trials if t.state.is_finished() and "changes" in t.user_attrs]

    def points(self, trials: int | None) -> Iterator[Changes | None]:
        """What is left to try: changes, or None where the sampler chooses."""
        if self.method not in ("grid", "ablation"):
            while len(self.done()) < (trials or 0):
                yield None
            return
        grid = [dict(zip((knob.key for knob in self.knobs), values, strict=True))
                for values in itertools.product(*(knob.choices for knob in self.knobs))]  # fmt: skip
        single = [{knob.key: value} for knob in self.knobs for value in knob.choices]
        done = [trial.user_attrs["changes"] for trial in self.done()]
        for point in grid if self.method == "grid" else [{}, *filter(self._differs, single)]:
            if point not in done:
                yield point

    def _differs(self, changes: Changes) -> bool:
        return load_config(self.base.model_dump(), overrides=_overrides(changes)) != self.base

    def run(self, point: Changes | None) -> None:
        """Make one trial."""
        if point is not None:
            self.study.enqueue_trial(point)
        trial = self.study.ask()
        changes = {knob.key: knob.suggest(trial) for knob in self.knobs if point is None or knob.key in point}
        self.reporter.say(f"trial {trial.number}: {', '.join(_overrides(changes)) or 'the config as it is'}")

        def judge(step: int, scores: Mapping[str, float]) -> None:
            trial.report(scores[self.metric], step)
            if point is None and trial.should_prune():
                raise TrainingError(BEHIND, where=f"step {step}")

        overrides = [*_overrides(changes), f"run.dir={json.dumps(str(self.out / 'runs'))}"]
        ending: dict[str, Any]
        try:
            run = train(self.base, overrides=overrides, reporter=self.reporter, on_validation=judge)
        except (DiskError, DeviceError, InterruptedRun) as error:
            error.hint = "the same command goes on with the sweep, and makes this trial again"
            raise
        except TrainingError as error:
            trial.set_user_attr("error", error.what)
            ending = {"state": self.states.PRUNED if error.what == BEHIND else self.states.FAIL}
        else:
            trial.set_user_attr("run", str(run.path))
            ending = {"values": read_json(RunDir(run.path).best)["value"]}
        trial.set_user_attr("changes", changes)  # from here on it counts
        self.study.tell(trial, **ending)

    def document(self) -> dict[str, Any]:
        """Every trial that counts and the best one, as JSON."""
        trials = [self._row(trial) for trial in self.done()]
        finished = [row for row in trials if row["run"]]
        best = max(finished, key=lambda row: float(row["value"]), default=None)
        if best is not None:
            report = RunDir(Path(best["run"])).evaluation(TEST) / "report.json"
            best = {**best, "test": read_json(report)["tuned"] if report.exists() else None}
        if self.method == "ablation" and finished and not finished[0]["changes"]:
            for row in finished[1:]:
                against = compare(finished[0]["run"], row["run"], split=VALIDATION)
                row["against_base"] = {name: against[name][self.metric] for name in ("difference", "ci95", "p_value")}
        return {"metric": self.metric, "trials": trials, "best": best}

    def _row(self, trial: Any) -> dict[str, Any]:
        """A trial with its metric on the validation rows, and how sure that is."""
        run = trial.user_attrs.get("run")
        row = {"number": trial.number, "changes": trial.user_attrs["changes"], "state": STATES[trial.state.name]}
        if run is None:
            return {**row, "value": None, "ci95": None, "run": None, "error": trial.user_attrs["error"]}
        tuned = read_json(RunDir(Path(run)).evaluation(VALIDATION) / "report.json")["tuned"]
        return {**row, "value": tuned[self.metric], "ci95": tuned[f"{self.metric}_ci95"], "run": run}


def _overrides(changes: Changes) -> list[str]:
    return [f"{key}={value}" for key, value in changes.items()]
