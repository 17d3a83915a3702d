"""Which process works in a run directory: one at a time, and it is known when that one is gone."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tonetune.errors import DataError, UsageError
from tonetune.rundir import RunDir, now, read_json, write_json, writing

LOCK = ".lock"
FINISHED, RUNNING, LOST = "finished", "running", "lost"
SAME_S = 2.0
"""Two times of one process's start, where the system has no exact one, differ by less."""


@dataclass(frozen=True)
class Holder:
    """A process, by what tells it from a later one of the same number: its start, its host, and the host's start."""

    pid: int
    started: float
    host: str
    boot: str
    since: str

    @classmethod
    def here(cls) -> "Holder":
        """This process."""
        return cls(os.getpid(), _start_of(os.getpid()) or 0.0, socket.gethostname(), _boot(), now())

    def is_gone(self) -> bool:
        """Whether the process has surely ended; of one on another host that cannot be known."""
        if self.host != socket.gethostname():
            return False
        started = _start_of(self.pid)
        return self.boot != _boot() or started is None or abs(started - self.started) >= SAME_S


def _boot() -> str:
    """What changes when the host starts again."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(round(psutil.boot_time(), -1))


def _start_of(pid: int) -> float | None:
    """When a process started, on Linux in ticks of a clock that nobody sets; None for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # its name may hold anything
        return None if fields[0] in "ZX" else float(fields[19])
    except OSError:
        pass
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.NoSuchProcess:
        return None


def holder(directory: Path) -> Holder | None:
    """The process that works in a run directory, None where there is none any more."""
    try:
        found = Holder(**read_json(directory / LOCK))
        return None if found.is_gone() else found
    except (DataError, TypeError):  # absent, or cut short with the power
        return None


def is_lock(path: Path) -> bool:
    """Whether `held` wrote this file: other programs have files of that name too, in directories of theirs."""
    try:
        Holder(**read_json(path))
    except (DataError, TypeError):
        return False
    return True


def status_of(run: RunDir) -> str:
    """The status in run.json, but "running" until the last file is written, and "lost" without a process to do it."""
    status = str(read_json(run.record).get("status"))
    if status != RUNNING and not (status == FINISHED and run.reserve.exists()):
        return status
    return LOST if holder(run.path) is None else RUNNING


def has_finished(run: RunDir) -> bool:
    """Whether every file of a run is written, so that there is nothing to go on with."""
    return read_json(run.record).get("status") == FINISHED and not run.reserve.exists()


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Inside, this process alone works in the directory. Raises UsageError where another does, and DiskError."""
    path = directory / LOCK
    with writing(path), _exclusively(directory):
        if other := holder(directory):
            raise UsageError(
                f"another process works in this run: {other.pid} on {other.host}, since {other.since}",
                where=str(directory),
                hint=f"wait for it or end it; if {other.host} is gone, remove {path}",
            )
        write_json(path, asdict(Holder.here()))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _exclusively(directory: Path) -> Iterator[None]:
    """Of several processes that look at a lock at once, let one after the other."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # file systems without such locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
