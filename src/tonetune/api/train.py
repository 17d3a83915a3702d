"""The whole job: prepare, baselines, tune, evaluate, report; each step writes its part of the run directory."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.api.job import Job, Validated, unheard
from tonetune.api.log import LoggedReporter
from tonetune.api.recorded import ending, recorded, reserve
from tonetune.api.results import run_summary
from tonetune.api.resume import Resumed, find_unfinished, identity
from tonetune.api.rows import prepare_rows, refuse_keys_of_rows, refuse_keys_of_task, refuse_unsupported, rules_of
from tonetune.api.setup import Placement, Start, environment, versions
from tonetune.api.trackers import trackers
from tonetune.config import RunConfig, load_config, to_yaml
from tonetune.data.prepare import Prepared, prepare_examples
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.data.reviews import load_reviews
from tonetune.data.splits import TEST, TRAIN, VALIDATION
from tonetune.errors import MissingExtraError, UsageError
from tonetune.evaluation.spread import spread
from tonetune.lock import FINISHED, RUNNING, has_finished, held
from tonetune.model.gguf import SUFFIX
from tonetune.model.source import Source, find_base
from tonetune.progress import Reporter, default_reporter
from tonetune.report.card import write_card
from tonetune.report.html import write_report
from tonetune.report.results import shown_metrics
from tonetune.rundir import RunDir, copy_whole, now, read_json, whole_file, write_json, writing
from tonetune.training.checkpoints import Checkpoint

DEMO_ROWS = {TRAIN: 5000, VALIDATION: 800, TEST: 1200}
QUICK_ROWS = {TRAIN: 1000, VALIDATION: 200, TEST: 1200}
DEMO_SETTINGS = ("train.epochs=2", "train.learning_rate=1e-3", "train.evaluate_every=100", "data.max_length=128")
QUICK_SETTINGS = ("train.epochs=1", "data.max_length=96")


@dataclass(frozen=True)
class Run:
    """A finished run: its directory, and the document that `train --json` prints."""

    path: Path
    summary: dict[str, Any]


def train(
    config: str | Path | Mapping[str, Any] | RunConfig | None = None,
    *,
    overrides: Sequence[str] = (),
    reporter: Reporter | None = None,
    allow_leaks: bool = False,
    options: ReadOptions = AS_FOUND,
    on_validation: Validated = unheard,
    resume: str | Path | None = None,
) -> Run:
    """Train a classifier as a config says: a file, a mapping, or None for the defaults and `overrides` alone.

    `allow_leaks` and `options` say how the files are read, see `prepare_rows`; `on_validation` hears step and scores of
    every validation where there is one seed, and may raise an error to end the run.
    `resume` names a run that was ended before its time, or is "auto", the newest such run in `run.dir`: it goes on,
    with no config but its own, and `overrides` may not change what it means.
    Raises ConfigError, DataError, ModelError, DeviceError, TrainingError; before the first row and tensor are known
    to be usable nothing is written. An interrupted run raises InterruptedRun and leaves status "interrupted".
    """
    if resume is not None:
        if config is not None:
            raise UsageError(
                "a run that goes on has its own config", where="train --resume", hint="leave the other out"
            )
        return resume_run(resume, overrides=overrides, reporter=reporter, on_validation=on_validation)
    source = config.model_dump() if isinstance(config, RunConfig) else config
    settings = load_config(source, overrides=overrides)
    refuse_unsupported(settings)
    prepared = prepare_rows(settings, allow_leaks=allow_leaks, options=options)
    return train_prepared(settings, prepared, reporter=reporter, on_validation=on_validation)


def demo(
    *,
    quick: bool = False,
    config: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Run:
    """The whole job on what packages ship: Gemma 3 270M and Chinese shop reviews (extra `demo`).

    All distinct reviews are split 70/15/15; then the first 5,000 training and 1,200 test rows by the hash of their
    text are used (`quick`: 1,000 training rows). Raises ConfigError for a config that names other rows.
    """
    sized = () if config is not None else QUICK_SETTINGS if quick else DEMO_SETTINGS
    settings = load_config(config, overrides=(*sized, *overrides))
    refuse_unsupported(settings)
    refuse_keys_of_rows(settings, reason="the demo has its own rows")
    prepared = prepare_examples(
        load_reviews(),
        given={},
        groups={},
        labels=None,
        rename={},
        task="auto",
        allow_leaks=False,
        rng=np.random.default_rng(settings.train.seed),
        rules=rules_of(settings),
    )
    return train_prepared(settings, prepared.limited(**(QUICK_ROWS if quick else DEMO_ROWS)), reporter=reporter)


def train_prepared(
    config: RunConfig,
    prepared: Prepared,
    *,
    reporter: Reporter | None = None,
    on_validation: Validated = unheard,
    into: RunDir | None = None,
    part_of: Path | None = None,
    baselines_of: RunDir | None = None,
) -> Run:
    """Train on splits that are ready, `into` an empty run or a new one; `train`, `demo` and the estimator share it.

    `part_of` is the run of several seeds, where this is one of them. The baselines are taken over from the run
    `baselines_of`, where one on the same rows and base is there.
    """
    refuse_keys_of_task(config, prepared)
    reporter = reporter or default_reporter()
    reporter.say(f"loading {config.model.base}")
    source = find_base(config.model.base, revision=config.model.revision, say=reporter.say)
    if config.evaluate.seeds > 1:
        run = new_run(config, source)
        with recorded(run, lambda: begin(run, config, prepared, source)):
            return train_seeds(run, config, prepared, reporter=reporter)
    placement = Placement.choose(config, source, num_labels=len(prepared.label_set))
    start = Start.load(config, prepared, source, placement)
    run = into or new_run(config, source)
    with recorded(run, lambda: begin(run, config, prepared, source, placement), whole=part_of):
        return work(
            run,
            config,
            prepared,
            start,
            placement,
            reporter=reporter,
            on_validation=on_validation,
            baselines_of=baselines_of,
        )


def resume_run(
    name: str | Path,
    *,
    overrides: Sequence[str] = (),
    reporter: Reporter | None = None,
    on_validation: Validated = unheard,
    part_of: Path | None = None,
) -> Run:
    """Let a run go on that was ended before its time, see `train`; its result is that of a run left alone.

    Raises DataError where there is no such run, UsageError for a tracker that is not installed, and what `Resumed.open`
    raises.
    """
    reporter = reporter or default_reporter()
    run = find_unfinished(name, Path(load_config(None, overrides=overrides).run.dir).expanduser())
    with held(run.path):
        resumed = Resumed.open(run, overrides)
        config, prepared = resumed.config, resumed.prepared
        refuse_unsupported(config)
        reporter.say(f"loading {config.model.base}")
        source = find_base(config.model.base, revision=config.model.revision, say=reporter.say)
        resumed.check_base(source)
        if config.evaluate.seeds > 1:
            resumed.begin()
            with ending(run):
                return train_seeds(run, config, prepared, reporter=reporter, overrides=overrides)
        placement = Placement.choose(config, source, num_labels=len(prepared.label_set))
        start = Start.load(config, prepared, source, placement)
        reserve(run)
        resumed.begin()
        with ending(run, whole=part_of):
            for note in resumed.notes():
                reporter.say(note)
            return work(
                run,
                config,
                prepared,
                start,
                placement,
                reporter=reporter,
                on_validation=on_validation,
                checkpoint=resumed.checkpoint,
            )


def work(
    run: RunDir,
    config: RunConfig,
    prepared: Prepared,
    start: Start,
    placement: Placement,
    *,
    reporter: Reporter,
    on_validation: Validated,
    baselines_of: RunDir | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """The stages of one run, and its documents."""
    reporter = LoggedReporter(reporter, run.log)
    reporter.say(f"run {run.path}")
    with trackers(config, run, reporter) as tracked:
        job = Job(
            config,
            prepared,
            start,
            placement,
            run,
            reporter,
            on_validation,
            baselines_of=baselines_of,
            tracked=tracked,
            checkpoint=checkpoint,
        )
        summary = job.work()
    run.update_record(status=FINISHED, finished=now())  # what card and report say; a failure of theirs replaces it
    write_documents(run, reporter)
    return Run(run.path, summary)


def new_run(config: RunConfig, source: Source) -> RunDir:
    """A new run directory, named for its base."""
    return RunDir.create(Path(config.run.dir).expanduser(), name=Path(source.name).name.removesuffix(SUFFIX))


def begin(
    run: RunDir, config: RunConfig, prepared: Prepared, source: Source, placement: Placement | None = None
) -> None:
    """Write all that a run starts from, and run.json last: from then on it can be resumed. Raises DiskError."""
    with whole_file(run.config) as file:
        file.write(to_yaml(config))
    prepared.write(run.path)
    if placement is not None:
        write_json(run.env, environment(placement))
    run.update_record(
        run=str(run.path),
        status=RUNNING,
        started=now(),
        base=config.model.base,
        revision=source.revision,
        versions=versions(),
        given=config.model_dump(mode="json"),
        identity=identity(run, source),
    )


def train_seeds(
    run: RunDir, config: RunConfig, prepared: Prepared, *, reporter: Reporter, overrides: Sequence[str] = ()
) -> Run:
    """Train `evaluate.seeds` times on the same rows, each run below seeds/; the run itself holds the files of the best.

    Best is best on validation. The summary is that of the best run, with the spread of the test metrics under "seeds".
    Runs of seeds that are there are left as they are, or go on.
    """
    reporter = LoggedReporter(reporter, run.log)
    runs: dict[int, Run] = {}
    for seed in range(config.train.seed, config.train.seed + config.evaluate.seeds):
        reporter.say(f"seed {seed}")
        own = RunDir(run.seed(seed))
        if not own.record.is_file():
            settings = config.with_values({"train.seed": seed, "evaluate.seeds": 1})
            first = next((RunDir(one.path) for one in runs.values()), None)
            with writing(own.path):
                if own.path.exists():  # ended before it could begin
                    shutil.rmtree(own.path)
            runs[seed] = train_prepared(
                settings,
                prepared,
                reporter=reporter,
                into=RunDir.at(own.path),
                part_of=run.path,
                baselines_of=first,
            )
        elif has_finished(own):
            runs[seed] = Run(own.path, run_summary(own))
        else:
            runs[seed] = resume_run(own.path, overrides=overrides, reporter=reporter, part_of=run.path)
    best = max(runs, key=lambda seed: float(read_json(RunDir(runs[seed].path).best)["value"]))
    kept = shutil.ignore_patterns("run.json", "run.log", "config.yaml", "checkpoints", ".*")
    with writing(run.path):
        shutil.copytree(runs[best].path, run.path, ignore=kept, dirs_exist_ok=True, copy_function=copy_whole)
    resolved = load_config(RunDir(runs[best].path).config)
    with whole_file(run.config) as file:
        file.write(to_yaml(resolved.with_values({"train.seed": config.train.seed, "evaluate.seeds": len(runs)})))
    tuned = {seed: one.summary["tuned"] for seed, one in runs.items()}
    seeds: dict[str, Any] = {"best": best, "tuned": tuned}
    if all(tuned.values()):
        names = [name for name, _ in shown_metrics(tuned[best])]
        seeds |= {name: spread([metrics[name] for metrics in tuned.values()]) for name in names}
    write_json(run.seeds, seeds)
    record = read_json(RunDir(runs[best].path).record)
    shared = {name: record[name] for name in ("prompt", "head_init", "load_gate", "train")}
    run.update_record(**shared, status=FINISHED, finished=now())
    write_documents(run, reporter)
    return Run(run.path, {**runs[best].summary, "run": str(run.path), "seeds": seeds})


def write_documents(run: RunDir, reporter: Reporter) -> None:
    """The model card, and the HTML report where its extra is installed."""
    write_card(run)
    try:
        reporter.say(f"report {write_report(run).path}")
    except MissingExtraError as error:
        reporter.say(f"no report.html: {error.what} ({error.hint})")
