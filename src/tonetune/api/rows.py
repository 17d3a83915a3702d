"""From a config to prepared rows: the one place where the section `data` becomes arguments."""

from collections.abc import Sequence

import numpy as np

from tonetune.config import RunConfig, keys_of
from tonetune.data.prepare import Prepared, prepare
from tonetune.errors import ConfigError


def prepare_rows(
    config: RunConfig,
    *,
    allow_leaks: bool = False,
    encoding: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
) -> Prepared:
    """Read, clean and split the files that the section `data` names, with the generator of `train.seed`.

    `encoding` and `delimiter` override what is detected; without `header` the first line is a row. Raises ConfigError
    where no file is named or a key is not supported, and what `data.prepare.prepare` raises.
    """
    refuse_unsupported(config)
    data = config.data
    if data.train is None:
        raise ConfigError(
            ["no training file is named"], where="data.train", hint="--data FILE, or tonetune demo to see it work"
        )
    return prepare(
        _files(data.train),
        validation=_files(data.validation),
        test=_files(data.test),
        text=str(data.text),
        label=data.label,
        labels=data.labels,
        rename=data.rename,
        group=data.group,
        task=data.task,
        allow_leaks=allow_leaks,
        rng=np.random.default_rng(config.train.seed),
        encoding=encoding,
        delimiter=delimiter,
        header=header,
    )


def _files(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def refuse_unsupported(config: RunConfig) -> None:
    """Keys whose meaning is agreed but whose work this version does not do: refused, not ignored."""
    problems = []
    if not isinstance(config.data.text, str):
        problems.append("data.text: several text columns are not supported by this version")
    if config.data.task == "multi-label":
        problems.append("data.task: multi-label training is not supported by this version")
    if config.evaluate.seeds > 1:
        problems.append("evaluate.seeds: more than one seed is not supported by this version; run train several times")
    if config.train.compile is True:
        problems.append("train.compile: compiled layers are not supported by this version")
    if config.run.trackers:
        problems.append("run.trackers: trackers are not supported by this version")
    if problems:
        raise ConfigError(problems)


def refuse_keys_of_rows(config: RunConfig, *, reason: str, others: Sequence[str] = ()) -> None:
    """Keys of `data` but max_length, where rows are given already, and `others`: refused, not ignored."""
    values = config.model_dump()
    fixed = [key for key in keys_of(RunConfig).values() if key.section == "data" or key.name in others]
    given = [k.name for k in fixed if k.name != "data.max_length" and values[k.section][k.word] != k.default]
    if given:
        raise ConfigError([f"{name}: {reason}" for name in given])
