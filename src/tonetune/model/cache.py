"""What tonetune made and can make again: directories that are whole or absent, and checksums computed once."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tonetune.cache import cache_root, open_cache
from tonetune.documents import parse_json
from tonetune.errors import DiskError, ModelError
from tonetune.rundir import write_json, writing

ABANDONED_S = 6 * 3600  # making the largest model takes less
CHECKSUMS = "checksums.json"
BLOCK = 1 << 20


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, filled by `make` where there is none.

    It is made beside its place and renamed, so that it is whole or absent; of two runs that start at once both work
    and one result stays. Raises what `make` raises, and DiskError where the cache cannot be written.
    """
    target = cache_root() / name
    if target.is_dir():
        return target
    open_cache()
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{name}."))
    try:
        make(staging)
        with writing(target):
            _publish(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _remove_abandoned(target: Path) -> None:
    """Remove what killed runs left beside `target`."""
    for left in target.parent.glob(f".{target.name}.*"):
        with contextlib.suppress(FileNotFoundError):  # another run has just finished
            if time.time() - left.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def _publish(staging: Path, target: Path) -> None:
    """Rename `staging` to `target`, unless another run has just done the same."""
    try:
        os.rename(staging, target)
    except OSError:
        if not target.is_dir():
            raise


def need_room(num_bytes: int, *, needed_for: str) -> None:
    """Raises DiskError where the cache has less room than that."""
    root = cache_root()
    free = shutil.disk_usage(root).free
    if free < num_bytes:
        raise DiskError(
            f"{needed_for} needs {num_bytes >> 20:,} MiB while it is made, and {free >> 20:,} MiB are free",
            where=str(root),
            hint="free some room, or choose another place with TONETUNE_CACHE",
        )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, remembered as long as its path, size and time of change stay the same.

    Raises ModelError where the file cannot be read.
    """
    try:
        facts = path.stat()
        known, stamp = _checksums(), [facts.st_size, facts.st_mtime_ns]
        if (found := known.get(str(path))) and found["stamp"] == stamp:
            return str(found["sha256"])
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    with contextlib.suppress(DiskError):  # then it is computed again next time
        write_json(open_cache() / CHECKSUMS, known | {str(path): {"stamp": stamp, "sha256": digest.hexdigest()}})
    return digest.hexdigest()


def _checksums() -> dict[str, dict[str, object]]:
    """What is remembered; nothing where the file is absent or damaged, or others could have written it."""
    try:
        known = parse_json((cache_root() / CHECKSUMS).read_text(encoding="utf-8"))
    except (OSError, ValueError, DiskError):
        return {}
    return known if isinstance(known, dict) else {}
