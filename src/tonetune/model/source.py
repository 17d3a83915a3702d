"""Where a base model comes from: the demo model, a directory, or a hub name; always a directory in the end."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.errors import ModelError
from tonetune.model.demo import DEMO, demo_base
from tonetune.rundir import writing

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Source:
    """A checked model directory. `name` finds it again from anywhere: demo, an absolute path, or a hub name."""

    name: str
    directory: Path
    config: dict[str, Any]
    revision: str | None = None


def find_base(base: str, *, revision: str | None = None) -> Source:
    """Turn `model.base` into a directory that holds config, weights and tokenizer.

    Raises ModelError, naming what is missing and what to do, for a directory that is not whole, a gated, missing or
    half-downloaded hub model, and for no network.
    """
    if base == DEMO:
        return _checked(DEMO, demo_base())
    directory = Path(base).expanduser()
    if directory.is_dir():
        return _checked(str(directory.resolve()), directory.resolve())
    if base.endswith(".gguf"):
        raise ModelError("GGUF files are not read yet", where=base, hint="name a directory or a hub model")
    if base.count("/") != 1 or base.startswith((".", "/", "~")):
        raise ModelError(
            "no such directory, and not a hub name either",
            where=f"model.base: {base}",
            hint="a directory with config.json and model.safetensors, a hub name such as google/gemma-3-270m, or demo",
        )
    return _checked(base, *_from_hub(base, revision))


def _checked(name: str, directory: Path, revision: str | None = None) -> Source:
    config_path = directory / "config.json"
    if not config_path.is_file():
        raise ModelError(
            f"the model directory has no config.json; it holds {_listing(directory)}",
            where=str(directory),
            hint="name the directory that save_pretrained wrote",
        )
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it holds no mapping")
    except ValueError as error:  # JSON and UTF-8 errors are of this kind too
        raise ModelError(f"config.json is damaged: {error}", where=str(config_path)) from error
    if not any((directory / file).is_file() for file in WEIGHTS):
        raise ModelError(
            f"the model directory has no weights ({' or '.join(WEIGHTS)}); it holds {_listing(directory)}",
            where=str(directory),
            hint="download the model whole; pickled weights (.bin, .pt) are not read",
        )
    _check_shards(directory)
    return Source(name, directory, config, revision)


def weight_map(directory: Path) -> dict[str, str]:
    """File of each tensor of a sharded checkpoint; empty where one file holds them all, which transformers prefers.

    Raises ModelError where the index is damaged.
    """
    path = directory / WEIGHTS[1]
    if (directory / WEIGHTS[0]).is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path.name} is damaged: {error}", where=str(path), hint="fetch this file again") from error


def _check_shards(directory: Path) -> None:
    shards = sorted(set(weight_map(directory).values()))
    missing = [shard for shard in shards if not (directory / shard).is_file()]
    if missing:
        raise ModelError(
            f"{len(missing)} of {len(shards)} weight files are missing: {', '.join(missing[:3])}",
            where=str(directory),
            hint="the download was cut short: fetch these files again",
        )


def _listing(directory: Path) -> str:
    names = sorted(p.name for p in directory.iterdir())
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "") if names else "nothing"


def _from_hub(name: str, revision: str | None) -> tuple[Path, str | None]:
    """Download (or find in the local hub cache) the files of a hub model; the directory and its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = f"huggingface.co/{name}"
    where = f"model.base: {name}"
    patterns = ["config.json", "*.safetensors", "model.safetensors.index.json", "tokenizer*", "generation_config.json"]
    try:
        path = Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except GatedRepoError as error:
        raise ModelError(
            "the model is gated: its licence must be accepted once, and you must be logged in",
            where=where,
            hint=f"accept the licence on {page}, then run: hf auth login",
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(
            f"the model has no revision {revision!r}", where="model.revision", hint=f"see the branches on {page}"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            "no such model on the hub, or it is private", where=where, hint="check the name; if private: hf auth login"
        ) from error
    except LocalEntryNotFoundError as error:
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        reason = "HF_HUB_OFFLINE is set" if offline else "the hub could not be reached"
        raise ModelError(
            f"the model is not in the local hub cache, and {reason}",
            where=where,
            hint=f"with a network, run: hf download {name}; or name a directory",
        ) from error
    except (HFValidationError, HfHubHTTPError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise ModelError(f"the hub refused: {first}", where=where, hint=f"see {page}") from error
    except OSError:
        with writing(Path(HF_HUB_CACHE)):  # what is left is a cache that cannot be written
            raise
    return path, path.name if path.parent.name == "snapshots" else revision
