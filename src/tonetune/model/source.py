"""Where a base model comes from: a directory, a hub name, or a GGUF file; always a directory in the end."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.data.tokens import tokenizer_file
from tonetune.errors import ModelError
from tonetune.model.cache import cache_root, file_sha256, made_once, need_room
from tonetune.model.checkpoint import INDEX, SINGLE, weight_map
from tonetune.model.demo import DEMO, GGUF_BYTES, GGUF_SHA256, write_demo_file
from tonetune.model.gguf import SUFFIX, conversion_s, convert, is_gguf
from tonetune.model.gguf_config import config_of
from tonetune.model.gguf_header import read_header
from tonetune.model.hub import download_command, fetch, read_config

Say = Callable[[str], None]
CONVERSION = 2  # counted up where the same file would become other files


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


def find_base(base: str, *, revision: str | None = None, say: Say = lambda message: None) -> Source:
    """Turn `model.base` into a directory that holds config, weights and tokenizer.

    A GGUF file is converted once, which `say` hears of. With its SHA-256 as `revision` the file itself is needed only
    where the cache does not have what was made of it. Raises ModelError, naming what is missing and what to do, for a
    directory that is not whole, for a GGUF file that is gone, is another or cannot be read, for a gated, missing or
    half-downloaded hub model, and for no network.
    """
    if is_gguf(base):
        return _find_gguf(base, revision, say)
    directory = Path(base).expanduser()
    if directory.is_dir():
        return checked_directory(str(directory.resolve()), directory.resolve())
    if base.count("/") != 1 or base.startswith((".", "/", "~")) or directory.is_file():
        raise ModelError(
            "no such directory, and not a hub name either",
            where=f"model.base: {base}",
            hint="a directory with config.json and model.safetensors, a .gguf file, a hub name such as "
            "google/gemma-3-270m, or demo",
        )
    directory, commit = fetch(base, revision)
    return checked_directory(base, directory, commit, again=f"with a network, run: {download_command(base, revision)}")


def _find_gguf(base: str, revision: str | None, say: Say) -> Source:
    """What was made of a GGUF file, by its SHA-256, made now where it is not in the cache."""
    if revision is not None and not re.fullmatch("[0-9a-f]{64}", revision):
        raise ModelError(
            f"{revision!r} is no SHA-256, which tells one GGUF file from another",
            where="model.revision",
            hint="leave it out, or give all 64 digits",
        )
    name = base if base == DEMO else os.path.abspath(Path(base).expanduser())
    sha256 = revision or (GGUF_SHA256 if name == DEMO else file_sha256(_present(Path(name))))

    def make(directory: Path) -> None:
        file = _demo_file(directory, sha256) if name == DEMO else _same_file(Path(name), sha256)
        _convert(file, directory, base, say)
        if name == DEMO:
            file.unlink()
        else:
            _same_file(file, sha256)

    directory = made_once(f"gguf-{sha256}-{CONVERSION}", make)
    return checked_directory(name, directory, sha256, again=f"remove {directory}: it will be made again")


def _demo_file(directory: Path, sha256: str) -> Path:
    if sha256 != GGUF_SHA256:
        raise ModelError(
            f"the demo model of this version is another: SHA-256 {GGUF_SHA256}, and {sha256} is needed",
            where=DEMO,
            hint="install the version of tonetune that was trained with",
        )
    need_room(GGUF_BYTES, needed_for="the demo model")
    write_demo_file(directory / f"demo{SUFFIX}")
    return directory / f"demo{SUFFIX}"


def _present(file: Path) -> Path:
    """Raises ModelError where there is no such file."""
    if not file.is_file():
        raise ModelError(
            "no such file" if not file.is_dir() else "it is a directory",
            where=f"model.base: {file}",
            hint="name a .gguf file on this machine; one of the hub is fetched with: hf download NAME FILE.gguf",
        )
    return file


def _same_file(file: Path, sha256: str) -> Path:
    """The file. Raises ModelError where it is gone or another, and the cache has nothing that was made of it."""
    found = f"has the SHA-256 {file_sha256(file)}" if file.is_file() else "is gone"
    if not found.endswith(sha256):
        raise ModelError(
            f"the GGUF file {found}, the one with the SHA-256 {sha256} is needed, and what was made of it is not in "
            f"the cache {cache_root()}",
            where=str(file),
            hint="put that file, or a link to it, back in its place",
        )
    return file


def _convert(file: Path, directory: Path, base: str, say: Say) -> None:
    """Write what the GGUF file holds into `directory`. Raises what `config_of`, `need_room` and `convert` raise."""
    header = read_header(file)
    config_of(header)
    need_room(header.unpacked_bytes, needed_for=base)
    say(f"{base} is converted once, to {header.unpacked_bytes >> 20:,} MiB: about {conversion_s(header)} s")
    convert(file, directory)


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
