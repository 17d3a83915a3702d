"""The process that serves: keys, a port, logs, and an end that answers what was accepted."""

import importlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tonetune.errors import DataError, MissingExtraError, UsageError
from tonetune.serve.limits import Limits

if TYPE_CHECKING:
    from tonetune.runtime import TextClassifier

KEYS_VARIABLE = "TONETUNE_API_KEYS"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def named_runs(runs: Sequence[str]) -> dict[str, str]:
    """Run directories or bundles by name, from NAME=RUN or RUN, which is known by the name of its directory.

    Raises UsageError for two of one name.
    """
    named: dict[str, str] = {}
    for run in runs:
        name, _, path = run.partition("=") if "=" in run and not Path(run).exists() else (None, None, run)
        name = name or Path(path).expanduser().resolve().name
        if name in named:
            raise UsageError(f"two models are called {name!r}", where="serve", hint="name them: NAME=RUN")
        named[name] = path
    return named


def read_keys(path: Path | None) -> list[str]:
    """API keys: the lines of a file, or the words of the variable TONETUNE_API_KEYS; none where neither is given.

    Raises DataError for a file that cannot be read or holds no key.
    """
    if path is None:
        return os.environ.get(KEYS_VARIABLE, "").split()
    try:
        keys = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the keys cannot be read: {error}", where=str(path)) from error
    if not keys:
        raise DataError("the file holds no key", where=str(path), hint="write one key a line")
    return keys


def bound(host: str, port: int) -> socket.socket:
    """A socket at host and port, where 0 is any free one. Raises UsageError where it cannot be had.

    Its connections send at once. asyncio asks for that only where a socket names its protocol, which this one does not,
    and without it the second packet of an answer waits 40 ms for the client's acknowledgement of the first.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        hint = "choose another port: --port 8001"
        raise UsageError(f"cannot listen: {error}", where=f"{host}:{port}", hint=hint) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(
    classifiers: "Mapping[str, TextClassifier]",
    *,
    host: str,
    port: int,
    keys: Sequence[str],
    limits: Limits,
    log_texts: bool,
    say: Callable[[str], None],
) -> None:
    """Serve classifiers by name until the process is told to stop.

    Then what was accepted is answered, for as long as a request may take. Raises MissingExtraError without the extra
    `serve`, UsageError where the port cannot be had.
    """
    require_extra()
    import uvicorn

    from tonetune.serve.app import create_app

    app = create_app(classifiers, limits=limits, keys=keys, log_texts=log_texts)
    listener = bound(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=limits.timeout_s,
    )
    say(f"http://{host}:{listener.getsockname()[1]}/ serves {', '.join(classifiers)}")
    if not keys and host not in LOOPBACK:
        say("no API keys: whoever reaches this port may use it; --api-keys FILE asks for one")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn hands on the signal that it ended well on
        say("stopped; every accepted request was answered")


def limit_caches() -> None:
    """Have torch remember fewer kernels, by variables that it reads at its first product; those that are set stay.

    On a CPU it keeps one for each shape of its 1,024 latest products. Requests come in all shapes, and each costs up to
    a MiB: a service would grow by that much over its first thousands of requests.
    """
    for variable in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "64")


def require_extra() -> None:
    """Raises MissingExtraError where the extra `serve` is not installed."""
    try:
        for module in ("fastapi", "prometheus_client", "uvicorn"):
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", needed_for="the HTTP service") from error


def log_to_stderr(*, quiet: bool) -> None:
    """One JSON line for each request on stderr, of errors alone where `quiet`."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("tonetune.serve").setLevel(logging.ERROR if quiet else logging.INFO)
