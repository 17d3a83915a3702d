"""The run directory: where each file of a run lies, and how files are written so that none of them ever lies."""

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from tonetune.errors import DataError, DiskError

SCHEMA = 1


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write below `path` into a DiskError that says which file and why."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some room, or choose another place with run.dir (runs) or TONETUNE_CACHE (models)"
            raise DiskError("the disk is full", where=str(path), hint=hint) from error
        reason = error.strerror or str(error)
        hint = "choose a directory that can be written"
        raise DiskError(f"cannot be written: {reason}", where=str(path), hint=hint) from error


@contextlib.contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that appears under `path` whole, or not at all: written beside it, synced, then renamed.

    Raises DiskError where it cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(fd, mode, encoding=encoding, newline=newline) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, document: object) -> None:
    """Write one JSON document, whole or not at all."""
    with whole_file(path) as file:
        json.dump(document, file, ensure_ascii=False, indent=2, allow_nan=False)
        file.write("\n")


def read_json(path: Path) -> Any:
    """Read one JSON document. Raises DataError, naming the file, where it is absent or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError("no such file", where=str(path), hint="is this a finished run directory?") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"damaged: {error}", where=str(path)) from error


def write_jsonl(path: Path, rows: Iterator[Mapping[str, object]] | list[dict[str, Any]]) -> None:
    """Write rows as JSON lines, whole or not at all."""
    with whole_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def append_jsonl(path: Path, row: Mapping[str, object]) -> None:
    """Append one event to a growing JSON-lines file."""
    with writing(path), open(path, "a", encoding="utf-8", newline="") as file:
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; an unterminated last line, as a killed process leaves it, is ignored."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("no such file", where=str(path)) from None
    lines = text.split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise DataError(f"damaged: {error}", where=f"{path}:{number}") from error
    return rows


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunDir:
    """Names of the files of a run; `path` is the directory, absolute."""

    path: Path

    @classmethod
    def create(cls, parent: Path, *, name: str) -> "RunDir":
        """Make a new directory below `parent`, named by `name` and the time, never one that exists."""
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        with writing(parent):
            parent.mkdir(parents=True, exist_ok=True)
            for attempt in range(1, 1000):
                path = parent / (f"{name}-{stamp}" if attempt == 1 else f"{name}-{stamp}-{attempt}")
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                return cls(path.resolve())
        raise DiskError("no free name for a run", where=str(parent), hint="clean up old runs")

    @classmethod
    def open(cls, path: str | Path) -> "RunDir":
        """An existing run. Raises DataError where `path` is none."""
        resolved = Path(path).expanduser().resolve()
        if not (resolved / "run.json").is_file():
            found = "no such directory" if not resolved.is_dir() else "not a run directory: it has no run.json"
            raise DataError(found, where=str(path), hint="name the directory that train printed as its run")
        return cls(resolved)

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def record(self) -> Path:
        return self.path / "run.json"

    @property
    def env(self) -> Path:
        return self.path / "env.json"

    @property
    def data(self) -> Path:
        return self.path / "data.json"

    @property
    def dropped(self) -> Path:
        return self.path / "dropped.jsonl"

    @property
    def labels(self) -> Path:
        return self.path / "labels.json"

    @property
    def adapters(self) -> Path:
        return self.path / "adapters.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def watch(self) -> Path:
        return self.path / "watch.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "run.log"

    @property
    def best(self) -> Path:
        return self.path / "best.json"

    @property
    def adapter(self) -> Path:
        return self.path / "adapter"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    def split(self, name: str) -> Path:
        """Rows of one split: train, validation or test."""
        return self.path / "splits" / f"{name}.jsonl"

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def evaluation(self, name: str) -> Path:
        """Results on one split, or of the baselines."""
        return self.path / "eval" / name

    def update_record(self, **changes: object) -> None:
        """Change keys of run.json, keeping the others; the file stays whole."""
        record = read_json(self.record) if self.record.exists() else {"schema": SCHEMA}
        write_json(self.record, {**record, **changes})
