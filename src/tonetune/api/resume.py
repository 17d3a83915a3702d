"""A run that was ended before its time, opened to go on: what it began with, and whether that is still the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.api.track import cut_back, fits
from tonetune.config import RunConfig, load_config
from tonetune.data.prepare import Prepared
from tonetune.data.readers.files import file_sha256
from tonetune.data.stored import read_prepared, rows_sha256
from tonetune.errors import ConfigError, DataError, ModelError, UsageError, listed
from tonetune.labels import LabelSet
from tonetune.lock import FINISHED, RUNNING, has_finished, status_of
from tonetune.model.artefact import fingerprint
from tonetune.model.source import Source
from tonetune.rundir import RunDir, now, read_json, remove_unfinished, write_json
from tonetune.training.checkpoints import (
    Checkpoint,
    checkpoints_in,
    newest_whole,
    remove_checkpoint,
    remove_leftovers,
    step_of,
)

AUTO = "auto"
FREE = ("train.micro_batch_tokens", "train.checkpointing")
"""Keys beside the section run that change how a run is computed, but not what."""
PINNED = ("model.revision", "model.dtype", "model.attention", "train.compile")
"""Other keys whose resolved values a run goes on with."""
ANEW = "put it back as it was, or start a new run"


def meaning(config: RunConfig) -> dict[str, Any]:
    """Every value by dotted key that the result of a run depends on."""
    return {key: value for key, value in config.flat("json").items() if not _is_free(key)}


def _is_free(key: str) -> bool:
    return key.startswith("run.") or key in FREE


def identity(run: RunDir, source: Source) -> dict[str, Any]:
    """What a run stands on: checksums of its rows, its labels and its base."""
    labels = LabelSet(tuple(read_json(run.labels)["names"]))
    return {"rows": rows_sha256(run), "labels": labels.hash, "base": fingerprint(source)}


@dataclass(frozen=True)
class Resumed:
    """A run to go on with: its config, its rows, and where training stood; None for its beginning."""

    run: RunDir
    config: RunConfig
    prepared: Prepared
    checkpoint: Checkpoint | None
    damaged: tuple[DataError, ...]
    record: Mapping[str, Any]

    @classmethod
    def open(cls, run: RunDir, overrides: Sequence[str]) -> "Resumed":
        """Read a run that this process holds; nothing is changed.

        Raises UsageError for a run that is finished, ConfigError for `overrides` that change what it means or a
        config.yaml that was changed, DataError for rows or labels that were, or files that are damaged.
        """
        record = read_json(run.record)
        if has_finished(run):
            raise UsageError("the run is finished", where=str(run.path), hint="train a new one, or evaluate this one")
        if "given" not in record:
            raise UsageError("the run was begun by a version without --resume", where=str(run.path), hint="train anew")
        given, resolved = load_config(record["given"]), load_config(run.config)
        asked = load_config(resolved.model_dump(), overrides=overrides)
        _refuse_changes(meaning(asked), meaning(given), meaning(resolved))
        checkpoint, damaged = newest_whole(run.checkpoints, fits=lambda found: fits(run, found.state))
        _refuse_other_data(run, record["identity"], record["identity"] | _kept(checkpoint))
        if checkpoint is not None:
            _refuse_other_config(run, meaning(resolved), checkpoint.state["identity"]["config"])
        kept, new = resolved.flat(), asked.flat()
        pinned = {key: kept[key] for key in PINNED}
        pinned |= {key: value for key, value in new.items() if _is_free(key) and key != "run.dir"}
        return cls(run, given.with_values(pinned), read_prepared(run), checkpoint, tuple(damaged), record)

    @property
    def step(self) -> int:
        """The step after which it goes on."""
        return self.checkpoint.step if self.checkpoint else 0

    def check_base(self, source: Source) -> None:
        """Raises ModelError where the base is another."""
        if fingerprint(source) != self.record["identity"]["base"]:
            raise ModelError("the base is not the one that the run began with", where=str(source.directory), hint=ANEW)

    def begin(self) -> None:
        """Take back what the run wrote after the checkpoint, and say in run.json that it goes on. Raises DiskError."""
        remove_leftovers(self.run.checkpoints)
        remove_unfinished(self.run.path)
        for path in checkpoints_in(self.run.checkpoints):
            if step_of(path) > self.step:
                remove_checkpoint(path)
        cut_back(self.run, self.checkpoint.state if self.checkpoint else None)
        kept = {key: value for key, value in self.record.items() if key not in ("error", "finished")}
        again = [*self.record.get("resumed", []), {"time": now(), "step": self.step}]
        write_json(self.run.record, {**kept, "run": str(self.run.path), "status": RUNNING, "resumed": again})

    def notes(self) -> list[str]:
        """What a person should know."""
        lost = [f"checkpoint {error.where} is {error.what}" for error in self.damaged]
        where = f"after step {self.step:,}" if self.checkpoint else "from its beginning: it has no whole checkpoint"
        return [*lost, f"the run goes on {where}"]


def find_unfinished(run: str | Path, directory: Path) -> RunDir:
    """The run of this name or, for "auto", the newest one below `directory` that was ended before its time.

    Raises DataError where `run` is none, UsageError where there is no such run.
    """
    if str(run) != AUTO:
        return RunDir.open(run)
    found = [RunDir.open(path.parent) for path in directory.glob("*/run.json")]
    left = {one: read_json(one.record)["started"] for one in found if status_of(one) not in (FINISHED, RUNNING)}
    if not left:
        raise UsageError(
            f"none of {len(found):,} runs was ended before its time", where=str(directory), hint="name it: --resume RUN"
        )
    return max(left, key=lambda one: (left[one], one.path.name))


def _kept(checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The identity in a checkpoint, less the config."""
    return {key: value for key, value in checkpoint.state["identity"].items() if key != "config"} if checkpoint else {}


def _refuse_changes(asked: Mapping[str, Any], given: Mapping[str, Any], resolved: Mapping[str, Any]) -> None:
    """Raises ConfigError for keys that are asked to be what they are not, and may not become."""
    problems = [
        f"{key}: the run has {resolved[key]!r}, found {value!r}"
        for key, value in asked.items()
        if value not in (given[key], resolved[key])
    ]
    if problems:
        hint = "a run goes on as it began: leave them out, or train anew"
        raise ConfigError(problems, where="train --resume", hint=hint)


def _refuse_other_config(run: RunDir, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    problems = [
        f"{key}: the run was begun with {expected[key]!r}, found {value!r}"
        for key, value in found.items()
        if key in expected and expected[key] != value
    ]
    if problems:
        raise ConfigError(problems, where=str(run.config), hint=ANEW)


def _refuse_other_data(run: RunDir, begun: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raises DataError where rows, labels or the files that they were read from have changed."""
    rows = rows_sha256(run)
    changed = [str(run.split(name)) for name, sha256 in expected["rows"].items() if rows.get(name) != sha256]
    changed += [f"{run.checkpoints} (of another run)"] if begun != expected else []
    for file in read_json(run.data)["files"]:
        path = Path(file["path"])
        if path.exists() and file_sha256(path) != file["sha256"]:
            changed.append(str(path))
    if LabelSet(tuple(read_json(run.labels)["names"])).hash != expected["labels"]:
        changed.append(str(run.labels))
    if changed:
        what = f"{len(changed)} files are not those that the run began with: {listed(changed, 4)}"
        raise DataError(what, where=str(run.path), hint=ANEW)
