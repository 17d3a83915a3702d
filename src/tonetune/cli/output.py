"""How the command line speaks: one JSON document or tables, errors of at most a dozen lines, exit codes."""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tonetune.errors import InterruptedRun, TonetuneError
from tonetune.interrupt import sigterm_interrupts
from tonetune.visible import visible

MAX_ERROR_LINES = 12


@dataclass(frozen=True)
class Output:
    """What the flags of a command ask for."""

    as_json: bool
    quiet: bool
    verbose: bool

    def document(self, document: dict[str, Any]) -> None:
        """Print a JSON document on stdout."""
        if self.as_json:
            print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))

    def reporter(self) -> Any:
        """Progress on stderr, or nothing with -q."""
        from tonetune.progress import SILENT, ConsoleReporter

        return SILENT if self.quiet else ConsoleReporter()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Print a deliberate error as such and exit with its code; let a bug show itself with -v."""
        try:
            with sigterm_interrupts():
                yield
        except TonetuneError as error:
            self._fail(error.as_dict(), str(error))
        except KeyboardInterrupt:
            stopped = InterruptedRun("interrupted")
            self._fail(stopped.as_dict(), str(stopped))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: say no more
            raise SystemExit(0) from None
        except Exception as bug:
            what = f"{type(bug).__name__}: {bug}"
            hint = "this is a bug in tonetune; run again with -v and report what it prints"
            document = {"type": "Bug", "what": what, "where": None, "hint": hint, "exit_code": 1}
            self._fail(document, f"{what}\n  {hint}")

    def _fail(self, document: dict[str, Any], message: str) -> None:
        code = int(document["exit_code"])
        if self.as_json:
            print(json.dumps({"error": document}, ensure_ascii=False, indent=2))
        if self.verbose:
            traceback.print_exc()
        lines = [visible(line) for line in message.splitlines()]
        if len(lines) > MAX_ERROR_LINES:
            lines = [*lines[: MAX_ERROR_LINES - 2], "  …", lines[-1]]
        print("error: " + "\n".join(lines), file=sys.stderr)
        raise SystemExit(code)
