"""A process that reads binary tables first: a damaged one can make the reader end the whole process, past any handler.

polars aborts where a Parquet file asks for more memory than there is. `python -m tonetune.data.readers.trial` answers
one byte for each table that arrives on its stdin, as one letter of a kind, eight bytes of length, and the table.
"""

import atexit
import contextlib
import io
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tonetune.errors import DataError

PARQUET, ARROW = b"p", b"a"
LENGTH_BYTES = 8
READ = b"."


class Trial:
    """The process, started when it is first needed, and again where a table has ended it."""

    def __init__(self) -> None:
        self._child: Any = None
        self._lock = threading.Lock()

    def require_survived(self, kind: bytes, data: bytes, path: Path) -> None:
        """Raises DataError for a table that ends the process which reads it; any other fault is left to be found."""
        with self._lock:
            if self._child is None:
                command = [sys.executable, "-m", "tonetune.data.readers.trial"]
                pipes: dict[str, Any] = {
                    "stdin": subprocess.PIPE,
                    "stdout": subprocess.PIPE,
                    "stderr": subprocess.DEVNULL,
                }
                self._child = subprocess.Popen(command, **pipes)
            to, back = self._child.stdin, self._child.stdout
            with contextlib.suppress(BrokenPipeError):
                to.write(kind + len(data).to_bytes(LENGTH_BYTES, "big") + data)
                to.flush()
            if back.read(len(READ)) != READ:
                self.stop()
                hint = "fetch or write it again"
                raise DataError("the table is damaged: it ends whatever reads it", where=str(path), hint=hint)

    def stop(self) -> None:
        """End the process."""
        if self._child is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.communicate()
            self._child = None


TRIAL = Trial()
atexit.register(TRIAL.stop)


def main() -> None:
    """Read every table on stdin, and say of each that it was survived."""
    import resource

    import polars

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while head := sys.stdin.buffer.read(1 + LENGTH_BYTES):
        table = io.BytesIO(sys.stdin.buffer.read(int.from_bytes(head[1:], "big")))
        with contextlib.suppress(BaseException):  # whatever it raises is raised again where it is read in earnest
            (polars.read_parquet if head[:1] == PARQUET else polars.read_ipc_stream)(table)
        sys.stdout.buffer.write(READ)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
