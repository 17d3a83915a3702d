"""The frame of a run: one process at a time, a status that is true whatever happens, and what is safe to do next."""

import contextlib
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tonetune.errors import DeviceError, DiskError, InterruptedRun, OutOfMemory, TonetuneError
from tonetune.interrupt import sigterm_interrupts
from tonetune.lock import FINISHED, held
from tonetune.rundir import RunDir, now, writing

RESERVE_BYTES = 64 << 10
"""Room that a run sets aside, so that it can still say how it ended when the disk is full."""
PASSING = (DiskError, DeviceError, OutOfMemory)
"""What another machine, room or a fresh process mends: such a run can go on."""


def resume_line(path: Path) -> str:
    """What to type to let a run go on."""
    return f"tonetune train --resume {shlex.quote(str(path))}"


@contextlib.contextmanager
def recorded(run: RunDir, begin: Callable[[], None], *, whole: Path | None = None) -> Iterator[None]:
    """Work in a new run: `begin` writes what it starts from, and run.json last; where that fails, no directory stays.

    Inside, SIGTERM counts as an interruption, and how the run ends is written to run.json, on a full disk too. `whole`
    is the run of several seeds that this one is part of. Raises what is raised inside, an error of the system as a
    DiskError, and with the line that resumes the run where that helps.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(run.path))
            reserve(run)
            begin()
        except BaseException:
            shutil.rmtree(run.path)
            raise
        with ending(run, whole=whole):
            yield


def reserve(run: RunDir) -> None:
    """Set some room aside. Raises DiskError where there is none."""
    with writing(run.reserve):
        run.reserve.write_bytes(bytes(RESERVE_BYTES))


@contextlib.contextmanager
def ending(run: RunDir, *, whole: Path | None = None) -> Iterator[None]:
    """The part of `recorded` that begins once run.json is there."""
    line = resume_line(whole or run.path)
    try:
        with sigterm_interrupts():
            yield
    except KeyboardInterrupt:
        _end(run, "interrupted")
        hint = f"its files so far are whole; go on with: {line}"
        raise InterruptedRun("the run was interrupted", where=str(whole or run.path), hint=hint) from None
    except InterruptedRun:  # one of several seeds
        _end(run, "interrupted")
        raise
    except TonetuneError as error:
        if isinstance(error, PASSING) and line not in (error.hint or ""):
            error.hint = "; then ".join(filter(None, [error.hint, f"go on with: {line}"]))
        _end(run, "failed", error=error.as_dict())
        raise
    except OSError as error:
        where, hint = str(error.filename or run.path), f"put it back or make room; then go on with: {line}"
        failed = DiskError(f"a file is gone or out of reach: {error.strerror or error}", where=where, hint=hint)
        _end(run, "failed", error=failed.as_dict())
        raise failed from error
    except BaseException as error:
        _end(run, "failed", error={"type": type(error).__name__, "what": str(error)})
        raise
    else:
        run.reserve.unlink(missing_ok=True)
        run.update_record(status=FINISHED, finished=now())


def _end(run: RunDir, status: str, **facts: object) -> None:
    """Write how a run ended; where that is not possible, the error at hand is more to the point than that one."""
    with contextlib.suppress(OSError):
        run.reserve.unlink(missing_ok=True)
    if run.record.is_file():  # else somebody removed the run: it does not come back for this
        with contextlib.suppress(DiskError):
            run.update_record(status=status, finished=now(), **facts)
