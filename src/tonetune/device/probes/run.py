"""Running probes in a child process that has a time limit and is started again after a crash."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from typing import Any, Literal

from tonetune.device.probes.catalogue import PROBES, Probe
from tonetune.device.probes.record import Machine, read_results, write_results
from tonetune.device.probes.result import ProbeResult

Selection = Literal["quick", "all", "none"]
START_LIMIT_S = 120.0
"""For a child to start, torch included."""


def run_probes(selection: Selection) -> list[ProbeResult]:
    """The results of the short selection, of all probes, or none, in the table's order.

    "quick" takes under half a minute on two CPU cores, "all" some minutes, each probe in a child of its own. What
    passed on this machine before is not measured again.
    """
    if selection == "none":
        return []
    return measure([p for p in PROBES if p.quick or selection == "all"], thorough=selection == "all")


def measure(probes: Sequence[Probe], *, thorough: bool) -> list[ProbeResult]:
    """Results of these probes, from the record where they passed as thoroughly before."""
    with Worker() as worker:
        failure = worker.start()
        before = read_results(worker.machine, probes) if worker.machine else []
        known = {r.id: r for r, how in before if r.status == "passed" and how >= thorough}
        results = []
        for probe in probes:
            results.append(known.get(probe.id) or _run(worker, probe, failure, thorough=thorough))
            if thorough:
                worker.stop()
        if worker.machine:
            write_results(worker.machine, [(r, thorough) for r in results if r.id not in known], probes)
    return results


def _run(worker: "Worker", probe: Probe, failure: dict[str, Any] | None, *, thorough: bool) -> ProbeResult:
    """One probe's result; `failure` is that of a child that could not start at all."""
    began_s = time.perf_counter()
    found = {"value": None, "limit": None, "facts": {}} | (failure or worker.ask(probe, thorough=thorough))
    return ProbeResult(
        id=probe.id,
        title=probe.title,
        advice=None if found["status"] in ("passed", "skipped") else probe.advice,
        seconds=round(time.perf_counter() - began_s, 3),
        **found,
    )


class Worker:
    """A child process that answers one probe at a time, and is started again where it has ended.

    `machine` is what the child said of the machine when it first started, None if it never did.
    """

    def __init__(self) -> None:
        self.machine: Machine | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> dict[str, Any] | None:
        """Start a child unless one runs; None, or what went wrong as the fields of a result."""
        if self._child is not None:
            return None
        self._connection, theirs = Pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `stop`)
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tonetune.device.probes", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,  # so that `stop` ends the processes that a probe started too
            )
        hello = self._receive(START_LIMIT_S)
        if "machine" not in hello:
            return hello
        self.machine = self.machine or hello["machine"]
        return None

    def ask(self, probe: Probe, *, thorough: bool) -> dict[str, Any]:
        """The child's answer as the fields of a result, or how it failed to answer."""
        if failure := self.start():
            return failure
        request = {"function": probe.function, "thorough": thorough}
        self._connection.send_bytes(json.dumps(request).encode())
        found = self._receive(probe.limit_s)
        if found["status"] == "crashed":  # what an error leaves behind would spoil the next probe
            self.stop()
        return found

    def _receive(self, limit_s: float) -> dict[str, Any]:
        """The next message; a child that sends none in time, or has died, is ended and described."""
        try:
            if self._connection.poll(limit_s):
                message: dict[str, Any] = json.loads(self._connection.recv_bytes())
                return message
        except (EOFError, ConnectionError):
            return {"status": "crashed", "detail": self.stop()}
        return {"status": "timeout", "detail": f"no answer within {limit_s:g} s; {self.stop(grace_s=0.0)}"}

    def stop(self, *, grace_s: float = 2.0) -> str:
        """End the child and all that it started; how it ended, and the last line that it wrote to stderr."""
        if self._child is None:
            return ""
        child, self._child = self._child, None
        self._connection.close()  # which an idle child takes as its end
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=grace_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        with self._stderr as file:
            file.seek(0)
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        ending = f"ended with exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        return ": ".join([ending, *(line[:300] for line in lines[-1:])])
