"""Every deliberate error of tonetune, in one tree.

    TonetuneError                 1    (never raised itself; a bug is an error outside this tree)
    ├── UsageError                2    wrong usage of the command line or the Python interface
    │   ├── ConfigError           2    a config that does not fit the schema; carries every problem at once
    │   └── MissingExtraError     2    an optional dependency is not installed
    ├── DataError                 3    a file or its rows
    │   ├── UncertainError        3    a question that only a person can answer
    │   └── UnknownLabelError     3    a label outside the label set
    ├── DeviceError               4    the accelerator
    ├── ModelError                5    the base model, its tokenizer or a saved adapter
    ├── TrainingError             6    training
    │   ├── OutOfMemory           6    memory, of the machine or the card
    │   └── DiskError             6    a file that could not be written
    ├── GateError                 7    a quality gate said no
    └── InterruptedRun            130  stopped by the user or the system

The number is the exit code of the command line.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar


def listed(names: Iterable[str], limit: int = 9, *, separator: str = ", ") -> str:
    """The first `limit` names, and how many more there are: "a, b, and 998 more"."""
    every = list(names)
    more = [f"and {len(every) - limit:,} more"] if len(every) > limit else []
    return separator.join([*every[:limit], *more])


class TonetuneError(Exception):
    """An error that says what happened, where, and what to do about it.

    `what`: what was found and what was allowed. `where`: file and row, config key, or step.
    `hint`: the next thing to try. All are plain sentences for a person.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  try: {self.hint}" if self.hint else head

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields, whatever arguments the class is made with, so that an error can leave a child process."""
        return _bare, (type(self), *self.args), vars(self)

    def as_dict(self) -> dict[str, str | int | None]:
        """The error as the command line prints it with `--json`."""
        return {
            "type": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def _bare(cls: type[TonetuneError], *args: object) -> TonetuneError:
    return cls.__new__(cls, *args)


class UsageError(TonetuneError):
    """The command or call does not make sense."""

    exit_code = 2


class ConfigError(UsageError):
    """A config that does not fit the schema. `problems` holds every one, each a full sentence with its place.

    `what` is the problem where there is one, and else a list of the first of them, short enough to be read.
    """

    def __init__(
        self, problems: Sequence[str], *, what: str | None = None, where: str | None = None, hint: str | None = None
    ) -> None:
        self.problems = tuple(problems)
        super().__init__(what or self._listed(), where=where, hint=hint)

    def _listed(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        lines = listed(self.problems, separator="\n  ")
        return f"{len(self.problems)} problems\n  {lines}"


class MissingExtraError(UsageError):
    """An optional dependency is needed and absent."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the extra '{extra}', which is not installed",
            hint=f"pip install 'tonetune[{extra}]'",
        )
        self.extra = extra


class DataError(TonetuneError, ValueError):
    """A file, or rows of it, cannot be used. A ValueError too, as scikit-learn and its users expect of such rows."""

    exit_code = 3


class UncertainError(DataError):
    """A file can be read in more than one way. `candidates` say what could be meant, each with its "role"."""

    def __init__(
        self, what: str, *, candidates: Sequence[dict[str, object]], where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.candidates = tuple(candidates)


class UnknownLabelError(DataError):
    """A row carries a label that the label set does not have."""


class DeviceError(TonetuneError):
    """The accelerator cannot do the work."""

    exit_code = 4


class ModelError(TonetuneError):
    """The base model, its tokenizer or a saved adapter is not what it should be."""

    exit_code = 5


class TrainingError(TonetuneError):
    """Training cannot go on."""

    exit_code = 6


class OutOfMemory(TrainingError):
    """There is no more memory."""


class DiskError(TrainingError):
    """A file could not be written."""


class GateError(TonetuneError):
    """A quality gate said no."""

    exit_code = 7


class InterruptedRun(TonetuneError):
    """The user or the system asked the run to stop."""

    exit_code = 130
