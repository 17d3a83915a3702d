"""A request to stop from the system counts as one from the keyboard, and can wait for a place where it does no harm."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt; handlers belong to the main thread, elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stops:
    """SIGINT and SIGTERM, which raise KeyboardInterrupt only within `heeded`, or else at its next beginning or the end.

    A second SIGINT raises it wherever the program is, and then `at_once` is true: nothing may be taken for whole. A
    signal that was ignored before stays so; handlers belong to the main thread, elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.at_once = False
        self._asked = self._open = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stops":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._asked:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside, a request to stop is heeded at once; one that came before, now."""
        try:
            self._open = True
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False

    def _hear(self, signum: int, frame: FrameType | None) -> None:
        again, self._asked = self._asked, True
        if again and signum == signal.SIGINT:
            self.at_once = True
            raise KeyboardInterrupt
        if self._open:
            self._open = False
            raise KeyboardInterrupt
