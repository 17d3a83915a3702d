"""The run directory: where each file of a run lies, and how files are written so that none of them ever lies."""

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from tonetune.documents import parse_json
from tonetune.errors import DataError, DiskError

SCHEMA = 1
SEEDS = "seeds"
UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")
"""Names under which files are written before they are whole."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write below `path` into a DiskError that says which file and why."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some room, or choose another place with run.dir (runs) or TONETUNE_CACHE, HF_HOME (models)"
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
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with open(temporary, mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def copy_whole(source: str | Path, target: str | Path) -> None:
    """Copy a file, whole or not at all. Raises DiskError."""
    content = Path(source).read_bytes()
    with whole_file(Path(target), "wb") as file:
        file.write(content)


def remove_unfinished(directory: Path) -> None:
    """Remove the files below a directory that `whole_file` was writing when it was killed. Raises DiskError."""
    with writing(directory):
        for path in directory.rglob(".*"):
            if UNFINISHED.fullmatch(path.name) and path.is_file():
                path.unlink()


def write_json(path: Path, document: object) -> None:
    """Write one JSON document, whole or not at all."""
    with whole_file(path) as file:
        json.dump(document, file, ensure_ascii=False, indent=2, allow_nan=False)
        file.write("\n")


def read_json(path: Path) -> Any:
    """Read one JSON document. Raises DataError, naming the file, where it is absent or damaged."""
    try:
        return parse_json(path.read_text(encoding="utf-8"), numbers_only=True)
    except FileNotFoundError:
        raise DataError("no such file", where=str(path), hint="is this a finished run directory?") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError as error:  # of UTF-8 too
        raise DataError(f"damaged: {error}", where=str(path)) from error


def write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows as JSON lines, whole or not at all."""
    with whole_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def append_jsonl(path: Path, row: Mapping[str, object]) -> None:
    """Append one event to a growing JSON-lines file, in place of an unterminated last line."""
    line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with writing(path), open(path, "a+b") as file:
        _cut_unterminated_line(file)
        file.write(line)


def _cut_unterminated_line(file: IO[bytes]) -> None:
    """Shorten the file to its last line feed, so that what is appended starts a line of its own."""
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; an unterminated last line, as a killed process leaves it, is ignored."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError("no such file", where=str(path)) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
    rows = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            rows.append(parse_json(line.decode(), numbers_only=True))
        except ValueError as error:
            raise DataError(f"damaged: {error}", where=f"{path}:{number}") from error
    return rows


def _require_no_link_out(run: Path) -> None:
    """Raises DataError for a link in a run that leads out of it: what is written to the run would be written there."""
    for parent, directories, names in os.walk(run):
        for path in (Path(parent, name) for name in (*directories, *names)):
            if path.is_symlink() and not path.resolve().is_relative_to(run):
                hint = "put the files themselves in its place, if you trust where the run comes from"
                raise DataError(
                    f"{path.relative_to(run)} is a link that leads out of the run", where=str(run), hint=hint
                )


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunDir:
    """Names of the files of a run; `path` is the directory, absolute."""

    path: Path

    @property
    def name(self) -> str:
        """What it is called among other runs; one of several seeds, which its directory is named for, by both."""
        whole = self.path.parent
        return f"{whole.parent.name}-seed-{self.path.name}" if whole.name == SEEDS else self.path.name

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
    def at(cls, path: Path) -> "RunDir":
        """A new, empty run at a path that does not exist."""
        with writing(path):
            path.mkdir(parents=True)
        return cls(path.resolve())

    @classmethod
    def open(cls, path: str | Path) -> "RunDir":
        """An existing run. Raises DataError where `path` is none."""
        resolved = Path(path).expanduser().resolve()
        if not (resolved / "run.json").is_file():
            found = "no such directory" if not resolved.is_dir() else "not a run directory: it has no run.json"
            raise DataError(found, where=str(path), hint="name the directory that train printed as its run")
        _require_no_link_out(resolved)
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
    def changed(self) -> Path:
        return self.path / "changed.jsonl"

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

    @property
    def seeds(self) -> Path:
        return self.path / "seeds.json"

    def seed(self, seed: int) -> Path:
        """The run of one seed, where there are several."""
        return self.path / SEEDS / str(seed)

    def split(self, name: str) -> Path:
        """Rows of one split: train, validation or test."""
        return self.path / "splits" / f"{name}.jsonl"

    @property
    def reserve(self) -> Path:
        """Room that a run sets aside until it has ended; where it is still there, the run did not end by itself."""
        return self.path / ".reserve"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def evaluation(self, name: str) -> Path:
        """Results on one split, or of the baselines."""
        return self.path / "eval" / name

    def update_record(self, **changes: object) -> None:
        """Change keys of run.json, keeping the others; the file stays whole."""
        record = read_json(self.record) if self.record.exists() else {"schema": SCHEMA}
        write_json(self.record, {**record, **changes})
