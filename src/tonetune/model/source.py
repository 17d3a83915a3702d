"""Where a base model comes from: a directory, a hub name, or a GGUF file; always a directory in the end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.data.tokens import tokenizer_file
from tonetune.errors import ModelError
from tonetune.model.checkpoint import INDEX, SINGLE, weight_map
from tonetune.model.gguf import is_gguf
from tonetune.model.gguf_base import Say, find_converted
from tonetune.model.hub import download_command, fetch, fetch_config, read_config


@dataclass(frozen=True)
class Source:
    """A checked model directory.

    `name` finds it again from anywhere: demo, an absolute path of a directory or a GGUF file, or a hub name. `revision`
    says which of all that may go by this name: the commit of a hub model, the SHA-256 of a GGUF file.
    """

    name: str
    directory: Path
    config: dict[str, Any]
    revision: str | None = None

    @property
    def is_gguf(self) -> bool:
        return is_gguf(self.name)

    @property
    def reference(self) -> str:
        """What an adapter tells PEFT to load it on: of a GGUF file, which PEFT cannot load, the checksum."""
        return f"sha256:{self.revision}" if self.is_gguf else self.name


def find_base(base: str, *, revision: str | None = None, say: Say = lambda message: None, whole: bool = True) -> Source:
    """Turn `model.base` into a directory that holds config, weights and tokenizer; unless it is to be `whole`, a
    config is enough, and of a hub model nothing else is fetched.

    A GGUF file is converted once, which `say` hears of. With its SHA-256 as `revision` the file itself is needed only
    where the cache does not have what was made of it. Raises ModelError, naming what is missing and what to do, for a
    directory that is not whole, for a GGUF file that is gone, is another or cannot be read, for a gated, missing or
    half-downloaded hub model, and for no network.
    """
    if is_gguf(base):
        name, directory, sha256 = find_converted(base, sha256=revision, say=say)
        return checked_directory(name, directory, sha256, again=f"remove {directory}: it will be made again")
    directory = Path(base).expanduser()
    if directory.is_dir():
        return checked_directory(str(directory.resolve()), directory.resolve(), whole=whole)
    if base.count("/") != 1 or base.startswith((".", "/", "~")) or directory.is_file():
        raise ModelError(
            "no such directory, and not a hub name either",
            where=f"model.base: {base}",
            hint="a directory with config.json and model.safetensors, a .gguf file, a hub name such as "
            "google/gemma-3-270m, or demo",
        )
    directory, commit = (fetch if whole else fetch_config)(base, revision)
    again = f"with a network, run: {download_command(base, revision)}"
    return checked_directory(base, directory, commit, again=again, whole=whole)


def checked_directory(
    name: str, directory: Path, revision: str | None = None, *, again: str | None = None, whole: bool = True
) -> Source:
    """The directory as a source, once it is known to be whole, or else to have a config; `again` is the hint for one
    that the hub gave.
    """
    config_path = directory / "config.json"
    if not config_path.is_file():
        raise ModelError(
            f"the model directory has no config.json; it holds {_listing(directory)}",
            where=str(directory),
            hint=again or "name the directory that save_pretrained wrote",
        )
    config = read_config(config_path)
    if not whole:
        return Source(name, directory, config, revision)
    if not any((directory / file).is_file() for file in (SINGLE, INDEX)):
        raise ModelError(
            f"the model directory has no weights ({SINGLE} or {INDEX}); it holds {_listing(directory)}",
            where=str(directory),
            hint=f"{again or 'download the model whole'}; pickled weights (.bin, .pt) are not read",
        )
    _check_shards(directory, again or "the download was cut short: fetch these files again")
    tokenizer_file(directory)
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
