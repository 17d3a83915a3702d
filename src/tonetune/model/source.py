"""Where a base model comes from: the demo model, a directory, or a hub name; always a directory in the end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.errors import ModelError
from tonetune.model.checkpoint import INDEX, SINGLE, weight_map
from tonetune.model.demo import DEMO, demo_base
from tonetune.model.hub import download_command, fetch, read_config


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
        return checked_directory(DEMO, demo_base())
    directory = Path(base).expanduser()
    if directory.is_dir():
        return checked_directory(str(directory.resolve()), directory.resolve())
    if base.endswith(".gguf"):
        raise ModelError("GGUF files are not read yet", where=base, hint="name a directory or a hub model")
    if base.count("/") != 1 or base.startswith((".", "/", "~")):
        raise ModelError(
            "no such directory, and not a hub name either",
            where=f"model.base: {base}",
            hint="a directory with config.json and model.safetensors, a hub name such as google/gemma-3-270m, or demo",
        )
    directory, commit = fetch(base, revision)
    return checked_directory(base, directory, commit, again=f"with a network, run: {download_command(base, revision)}")


def checked_directory(name: str, directory: Path, revision: str | None = None, *, again: str | None = None) -> Source:
    """The directory as a source, once it is known to be whole; `again` is the hint for one that the hub gave."""
    config_path = directory / "config.json"
    if not config_path.is_file():
        raise ModelError(
            f"the model directory has no config.json; it holds {_listing(directory)}",
            where=str(directory),
            hint=again or "name the directory that save_pretrained wrote",
        )
    config = read_config(config_path)
    if not any((directory / file).is_file() for file in (SINGLE, INDEX)):
        raise ModelError(
            f"the model directory has no weights ({SINGLE} or {INDEX}); it holds {_listing(directory)}",
            where=str(directory),
            hint=f"{again or 'download the model whole'}; pickled weights (.bin, .pt) are not read",
        )
    _check_shards(directory, again or "the download was cut short: fetch these files again")
    return Source(name, directory, config, revision)


def _check_shards(directory: Path, hint: str) -> None:
    if (directory / SINGLE).is_file():
        return
    shards = sorted(set(weight_map(directory).values()))
    missing = [shard for shard in shards if not (directory / shard).is_file()]
    if missing:
        raise ModelError(
            f"{len(missing)} of {len(shards)} weight files are missing: {', '.join(missing[:3])}",
            where=str(directory),
            hint=hint,
        )


def _listing(directory: Path) -> str:
    names = sorted(p.name for p in directory.iterdir())
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "") if names else "nothing"
