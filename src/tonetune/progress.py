"""What a person sees while work goes on: a live bar in a terminal or notebook, plain lines elsewhere, or nothing."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from tonetune.visible import visible

PLAIN_EVERY_S = 10.0
TIME_COLUMNS = 22
"""What a live bar needs beside its title, its counts and its note: a bit of bar, the time left, blanks."""


class Bar(Protocol):
    """A piece of work with a known number of steps."""

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Count steps as done; `note` is shown beside the bar: parts two blanks apart, the last of which may be cut."""


class Reporter(Protocol):
    """Where a run says what it is doing."""

    def say(self, message: RenderableType) -> None:
        """Print a line, with what would act on a terminal spelled out, or a table."""

    def bar(self, title: str, total: int) -> contextlib.AbstractContextManager[Bar]:
        """Show progress while the block runs."""


class _Silent:
    def say(self, message: RenderableType) -> None:
        pass

    @contextlib.contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        yield self

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        pass


SILENT: Reporter = _Silent()


class ConsoleReporter:
    """Says everything on one console: stderr, so that stdout carries data alone."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)

    def say(self, message: RenderableType) -> None:
        self.console.print(visible(message) if isinstance(message, str) else message, markup=False)

    @contextlib.contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        if not (self.console.is_terminal or self.console.is_jupyter):
            yield _PlainBar(self.console, title, total)
            return
        columns = (  # on a narrow terminal the bar gives way, not the numbers
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left"),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            room = self.console.width - len(title) - 2 * len(str(total)) - TIME_COLUMNS
            yield _LiveBar(progress, progress.add_task(title, total=total, note=""), room)


class _LiveBar:
    def __init__(self, progress: Progress, task: TaskID, room: int) -> None:
        self._progress, self._task, self._room = progress, task, room

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        self._progress.update(self._task, advance=steps, note=fitting(note, self._room))


def fitting(note: str, room: int) -> str:
    """As many of a note's parts as that many columns hold, at least the first."""
    parts = note.split("  ")
    while len(parts) > 1 and len("  ".join(parts)) > room:
        parts.pop()
    return "  ".join(parts)


class _PlainBar:
    """A line now and then, for logs and pipes."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._console, self._title, self._total = console, title, total
        self._done, self._began = 0, time.perf_counter()
        self._printed = self._began

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        self._done += steps
        now = time.perf_counter()
        if now - self._printed < PLAIN_EVERY_S and self._done < self._total:
            return
        self._printed = now
        left_s = (now - self._began) / self._done * (self._total - self._done)
        left = f"{left_s:.0f} s left" if self._done < self._total else f"in {now - self._began:.1f} s"
        line = "  ".join(filter(None, (f"{self._title} {self._done}/{self._total}", note, left)))
        self._console.print(line, markup=False, soft_wrap=True)


def default_reporter() -> Reporter:
    """For Python callers: a live view in a terminal or notebook, silence where nobody looks."""
    console = Console(stderr=True, highlight=False)
    return ConsoleReporter(console) if sys.stderr.isatty() or console.is_jupyter else SILENT
