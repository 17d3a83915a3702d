"""run.log: what a run said, for those who were not there."""

import contextlib
from pathlib import Path

from rich.console import Console, RenderableType

from tonetune.progress import Bar, ConsoleReporter, Reporter
from tonetune.rundir import writing

WIDTH_COLUMNS = 120


class LoggedReporter:
    """Another reporter, every message of which is also a line of a file. Raises DiskError where that is not written."""

    def __init__(self, reporter: Reporter, path: Path) -> None:
        self._reporter, self._path = reporter, path

    def say(self, message: RenderableType) -> None:
        self._reporter.say(message)
        with writing(self._path), open(self._path, "a", encoding="utf-8") as file:
            ConsoleReporter(Console(file=file, width=WIDTH_COLUMNS, highlight=False, color_system=None)).say(message)

    def bar(self, title: str, total: int) -> contextlib.AbstractContextManager[Bar]:
        return self._reporter.bar(title, total)
