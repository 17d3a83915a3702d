"""Checkpoints on disk: JSON and safetensors, written beside their place, synced, and renamed; whole by their checksums.

state.json          where training stands
NAME.safetensors    tensors
manifest.json       size and SHA-256 of each of these files; written last
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from tonetune.documents import parse_json
from tonetune.errors import DataError
from tonetune.rundir import writing

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1
STATE = "state.json"
MANIFEST = "manifest.json"
SUFFIX = ".safetensors"
PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: `state` is its state.json, and `tensors` are by file and name."""

    path: Path
    state: dict[str, Any]
    tensors: dict[str, dict[str, "Tensor"]]

    @property
    def step(self) -> int:
        return step_of(self.path)


def step_of(path: Path) -> int:
    """The optimiser step that the name of a checkpoint says."""
    return int(path.name.removeprefix(PREFIX))


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoints of a run by their names, oldest first, whole or not."""
    found = directory.glob(f"{PREFIX}*") if directory.is_dir() else ()
    return sorted((path for path in found if path.name.removeprefix(PREFIX).isdigit()), key=step_of)


def write_checkpoint(path: Path, state: Mapping[str, object], tensors: Mapping[str, dict[str, "Tensor"]]) -> None:
    """Write a checkpoint, whole or not at all, whatever ends the process or the machine. Raises DiskError."""
    from safetensors.torch import save

    parts = {STATE: _json({"schema": SCHEMA, **state})}
    parts |= {name + SUFFIX: save({k: t.contiguous() for k, t in part.items()}) for name, part in tensors.items()}
    sums = {name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in parts.items()}
    staging = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with writing(path):
        staging.mkdir(parents=True)
        try:
            for name, part in {**parts, MANIFEST: _json({"schema": SCHEMA, "files": sums})}.items():
                with open(staging / name, "wb") as file:
                    file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
            _sync_directory(staging)
            os.rename(staging, path)
            _sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _json(document: object) -> bytes:
    return (json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises DataError, naming the file, where one is absent or is not what was written."""
    from safetensors.torch import load

    state: dict[str, Any] = {}
    tensors: dict[str, dict[str, Tensor]] = {}
    try:
        manifest = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        for name, sums in manifest["files"].items():
            if Path(name).name != name:
                raise ValueError(f"{name!r} is no name of a file in it")
            content = (path / name).read_bytes()
            if hashlib.sha256(content).hexdigest() != sums["sha256"]:
                raise DataError(f"damaged: {name} does not match its checksum", where=str(path))
            if name == STATE:
                state = parse_json(content.decode())
            else:
                tensors[name.removesuffix(SUFFIX)] = load(content)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"damaged: {error.strerror or error}", where=error.filename or str(path)) from error
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"damaged: {MANIFEST} is not what was written: {error!r}", where=str(path)) from error
    if state.get("schema") != SCHEMA:
        raise DataError(f"schema {state.get('schema')!r}, this tonetune reads {SCHEMA}", where=str(path))
    return Checkpoint(path, state, tensors)


def newest_whole(
    directory: Path, *, fits: Callable[[Checkpoint], bool] = lambda checkpoint: True
) -> tuple[Checkpoint | None, list[DataError]]:
    """The newest checkpoint that is whole and that `fits`, if there is one, and what is wrong with those after it."""
    damaged: list[DataError] = []
    for path in reversed(checkpoints_in(directory)):
        try:
            checkpoint = read_checkpoint(path)
            if fits(checkpoint):
                return checkpoint, damaged
            damaged.append(DataError("the files of the run are shorter than this checkpoint says", where=str(path)))
        except DataError as error:
            damaged.append(error)
    return None, damaged


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint: gone from one moment to the next, so that none is ever there in part. Raises DiskError."""
    with writing(path):
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        os.rename(path, aside)
        shutil.rmtree(aside)


def remove_leftovers(directory: Path) -> None:
    """Remove what a killed process left half written or half removed. Raises DiskError."""
    with writing(directory):
        for path in directory.glob(f".{PREFIX}*"):
            shutil.rmtree(path)
