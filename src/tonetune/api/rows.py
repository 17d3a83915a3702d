"""From a config to prepared rows: the one place where the section `data` becomes arguments."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tonetune.api.trackers import refuse_missing_trackers
from tonetune.config import RunConfig, keys_of, load_config
from tonetune.data.cleaning import cleaning_rules
from tonetune.data.columns import AUTO
from tonetune.data.prepare import Prepared, prepare
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.errors import ConfigError, UsageError

KEYS_OF_TEXTS = ("data.max_length", "data.urls", "data.mentions")
"""What is done with a text, wherever it comes from."""


def prepare_rows(config: RunConfig, *, allow_leaks: bool = False, options: ReadOptions = AS_FOUND) -> Prepared:
    """Read, clean and split the files that the section `data` names, with the generator of `train.seed`.

    `options` override what is found in the files. Raises ConfigError where no file is named, and what
    `data.prepare.prepare` raises.
    """
    data = config.data
    if data.train is None:
        raise ConfigError(
            ["no training file is named"], where="data.train", hint="--data FILE, or tonetune demo to see it work"
        )
    return prepare(
        _files(data.train),
        validation=_files(data.validation),
        test=_files(data.test),
        text=data.text,
        label=data.label,
        labels=data.labels,
        rename=data.rename,
        group=data.group,
        task=data.task,
        allow_leaks=allow_leaks,
        rules=rules_of(config),
        rng=np.random.default_rng(config.train.seed),
        options=options,
    )


def rules_of(config: RunConfig) -> tuple[str, ...]:
    """The cleaning rules that a config asks for."""
    return cleaning_rules(urls=config.data.urls, mentions=config.data.mentions)


def _files(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def refuse_unsupported(config: RunConfig) -> None:
    """Keys whose meaning is agreed but whose work this version, or this installation, does not do: refused."""
    problems = []
    if config.train.compile is True:
        problems.append("train.compile: compiled layers are not supported by this version")
    if problems:
        raise ConfigError(problems)
    refuse_missing_trackers(config.run.trackers)


def refuse_keys_of_task(config: RunConfig, prepared: Prepared) -> None:
    """Raises ConfigError for a metric to select by, and for class weights, that the rows' task does not have."""
    if config.evaluate.select_by == "micro_f1" and not prepared.multi_label:
        what = "micro_f1 is for multi-label rows; of one label a row it is the accuracy"
        raise ConfigError([what], where="evaluate.select_by", hint="evaluate.select_by: accuracy")
    if config.train.class_weights != "none" and prepared.multi_label:
        what = "class weights need texts of one label each, and the rows are multi-label"
        raise ConfigError([what], where="train.class_weights", hint="train.class_weights: none")


def refuse_keys_of_rows(config: RunConfig, *, reason: str, others: Sequence[str] = ()) -> None:
    """Keys of `data` that say which rows, where rows are given already, and `others`: refused, not ignored."""
    values = config.flat()
    fixed = [key for key in keys_of(RunConfig).values() if key.section == "data" or key.name in others]
    given = [k.name for k in fixed if k.name not in KEYS_OF_TEXTS and values[k.name] != k.default]
    if given:
        raise ConfigError([f"{name}: {reason}" for name in given])


def config_of(run: str | Path) -> RunConfig | None:
    """The config of a run, every value resolved; None for an adapter directory, which no longer has it."""
    path = Path(run).expanduser() / "config.yaml"
    return load_config(path) if path.is_file() else None


def text_columns(config: RunConfig | None, given: str | Sequence[str], *, num_turns: int) -> str | Sequence[str]:
    """The text columns of files for a classifier: those given, else for a text of several turns those of its run.

    Raises UsageError where they are not as many as the classifier takes turns.
    """
    own = config.data.text if config and num_turns > 1 else AUTO
    columns = own if given == AUTO else given
    found = 1 if isinstance(columns, str) else len(columns)
    if found != num_turns:
        raise UsageError(
            f"the classifier takes texts of {num_turns} columns, found {found}: {columns}",
            where="--text",
            hint="name each with --text, in the order of training",
        )
    return columns
