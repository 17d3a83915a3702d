"""What was made of a GGUF file, found by the file's SHA-256 and made where the cache does not have it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from tonetune.cache import cache_root
from tonetune.errors import ModelError
from tonetune.model.cache import file_sha256, made_once, need_room
from tonetune.model.demo import DEMO, GGUF_BYTES, GGUF_SHA256, write_demo_file
from tonetune.model.gguf import SUFFIX, conversion_s, convert
from tonetune.model.gguf_config import config_of
from tonetune.model.gguf_header import read_header

Say = Callable[[str], None]
CONVERSION = 2  # counted up where the same file would become other files


def find_converted(base: str, *, sha256: str | None, say: Say) -> tuple[str, Path, str]:
    """Name, model directory and SHA-256 of a GGUF file: of the demo's, or of the one at the path `base`.

    With `sha256` the file is needed only where the cache does not have what was made of it, and must be that one.
    `say` hears of a conversion. Raises ModelError for a file that is gone, is another, or cannot be converted, and
    DiskError, TrainingError where room or memory do not suffice.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ModelError(
            f"{sha256!r} is no SHA-256, which tells one GGUF file from another",
            where="model.revision",
            hint="leave it out, or give all 64 digits",
        )
    is_demo = base == DEMO
    name = base if is_demo else os.path.abspath(Path(base).expanduser())
    wanted = sha256 or (GGUF_SHA256 if is_demo else file_sha256(_present(Path(name))))

    def make(directory: Path) -> None:
        file = _demo_file(directory, wanted) if is_demo else _same_file(Path(name), wanted)
        _convert(file, directory, base, say)
        if is_demo:
            file.unlink()
        else:
            _same_file(file, wanted)

    return name, made_once(f"gguf-{wanted}-{CONVERSION}", make), wanted


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
