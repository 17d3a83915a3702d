"""The place for what tonetune can make again, which nobody but the user may write: what lies there is trusted."""

import os
import stat
from pathlib import Path

from tonetune.errors import DiskError

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
COMPILED = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def cache_root() -> Path:
    """TONETUNE_CACHE where it is set, else tonetune below the user's cache directory.

    Raises DiskError where others could have written there.
    """
    root = _chosen()
    require_private(root)
    return root


def open_cache() -> Path:
    """The same directory, made for the user alone where there is none. Raises DiskError where that cannot be."""
    root = _chosen()
    make_private(root)
    return root


def use_private_compile_cache() -> None:
    """Let torch and Triton keep what they compile in the cache, unless variables name other places.

    By itself torch keeps it below /tmp, under a name that anyone can take first, and runs what it finds there. Raises
    DiskError for a place that others can write.
    """
    for variable in COMPILED:
        chosen = os.environ.setdefault(variable, str(_chosen() / variable.split("_")[0].lower()))
        make_private(Path(chosen))


def make_private(directory: Path) -> None:
    """Make a directory that its owner alone can enter; one that exists is checked by `require_private`.

    Raises DiskError where it cannot be made.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        hint = "choose another directory with TONETUNE_CACHE"
        raise DiskError(f"cannot be made: {error.strerror}", where=str(directory), hint=hint) from error
    require_private(directory)


def require_private(directory: Path) -> None:
    """Take the right to write in a directory from everyone but its owner.

    Raises DiskError where the owner is neither the user nor root, or others can write and that cannot be changed.
    """
    try:
        facts = directory.stat()
    except OSError:
        return  # nothing can be read from it
    hint = "remove it, or choose another directory with TONETUNE_CACHE"
    if facts.st_uid not in (os.geteuid(), ROOT):
        what = f"the cache belongs to another user (number {facts.st_uid}), who could put anything into it"
        raise DiskError(what, where=str(directory), hint=hint)
    if facts.st_mode & OTHERS_WRITE:
        try:
            directory.chmod(stat.S_IMODE(facts.st_mode) & ~OTHERS_WRITE)
        except OSError as error:
            raise DiskError("others can write into the cache", where=str(directory), hint=hint) from error


def _chosen() -> Path:
    if chosen := os.environ.get("TONETUNE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tonetune"
