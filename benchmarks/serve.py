"""Latency and throughput of the service: many clients at once beside one at a time, and its memory over many requests.

    python benchmarks/serve.py RUN [--clients 64] [--seconds 60] [--requests 10000] [--force] [--out FILE.json]

Starts `tonetune serve RUN` with its defaults and asks `POST /predict` for one text a request, reviews in turn,
over connections that stay open: first one client, then all of them, each for so many seconds after a warm-up; then as
many more requests as are named, with the service's resident memory after every tenth of them. Clients and service share
the machine. Prints a JSON document.
"""

import argparse
import http.client
import itertools
import json
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tonetune.data.reviews import load_reviews
from tonetune.rundir import write_json

LOADING_S = 600
WARMUP_S = 3.0
PACKAGES = ("tonetune", "torch", "fastapi", "uvicorn", "onnxruntime")


@dataclass
class Tally:
    """Seconds of every answered request, and how often each other status came."""

    seconds: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    def summary(self, wall_s: float) -> dict[str, Any]:
        p50, p95, p99 = np.percentile(self.seconds, (50, 95, 99)) * 1000
        latency = {"p50": round(float(p50), 1), "p95": round(float(p95), 1), "p99": round(float(p99), 1)}
        rate = round(len(self.seconds) / wall_s, 2)
        return {"requests": len(self.seconds), "failures": self.failures, "requests_per_s": rate, "latency_ms": latency}


class Load:
    """Clients that each ask for one text after the other."""

    def __init__(self, host: str, port: int, texts: list[str]) -> None:
        self._host, self._port = host, port
        self._bodies = itertools.cycle([json.dumps({"inputs": text}).encode() for text in texts])
        self._lock = threading.Lock()

    def _next_body(self) -> bytes:
        with self._lock:
            return next(self._bodies)

    def _client(self, tally: Tally, go_on: Any) -> None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=120)
        while go_on():
            body = self._next_body()
            begun = time.perf_counter()
            try:
                connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                outcome = str(answer.status)
            except OSError as error:
                connection.close()
                outcome = type(error).__name__
            if outcome == "200":
                tally.seconds.append(time.perf_counter() - begun)
            else:
                tally.failures[outcome] = tally.failures.get(outcome, 0) + 1

    def run(self, clients: int, go_on: Any) -> dict[str, Any]:
        """What `clients` saw while `go_on` said so."""
        tally = Tally()
        threads = [threading.Thread(target=self._client, args=(tally, go_on)) for _ in range(clients)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"clients": clients, **tally.summary(time.perf_counter() - begun)}

    def for_seconds(self, clients: int, seconds: float) -> dict[str, Any]:
        end = time.perf_counter() + seconds
        return self.run(clients, lambda: time.perf_counter() < end)

    def for_requests(self, clients: int, requests: int) -> dict[str, Any]:
        left = itertools.count()
        return self.run(clients, lambda: next(left) < requests)


def started(run: str, log: Path, *, force: bool) -> tuple[subprocess.Popen[bytes], int]:
    """The service and its port, once it is ready."""
    command = [sys.executable, "-m", "tonetune", "serve", run, "--port", "0", *(["--force"] if force else [])]
    with open(log, "wb") as file:
        child = subprocess.Popen(command, stdout=file, stderr=file)
    end = time.monotonic() + LOADING_S
    while time.monotonic() < end and child.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/ serves", log.read_text(errors="replace")):
            return child, int(found[1])
        time.sleep(0.1)
    raise SystemExit(log.read_text(errors="replace"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    texts = [review.text for review in load_reviews() if review.text.strip()]
    with tempfile.TemporaryDirectory() as directory:
        child, port = started(given.run, Path(directory) / "log", force=given.force)
        try:
            load = Load("127.0.0.1", port, texts)
            load.for_seconds(given.clients, WARMUP_S)
            alone = load.for_seconds(1, given.seconds)
            together = load.for_seconds(given.clients, given.seconds)
            resident_mib = [psutil.Process(child.pid).memory_info().rss / 2**20]
            for _ in range(10):
                load.for_requests(given.clients, given.requests // 10)
                resident_mib.append(psutil.Process(child.pid).memory_info().rss / 2**20)
        finally:
            child.terminate()
            code = child.wait()
    document = {
        "command": " ".join(["python", "benchmarks/serve.py", *sys.argv[1:]]),
        "machine": {"cores": psutil.cpu_count(), "processor": platform.machine(), "python": platform.python_version()},
        "versions": {name: version(name) for name in PACKAGES},
        "one_at_a_time": alone,
        "together": together,
        "gain": round(together["requests_per_s"] / alone["requests_per_s"], 2),
        "memory": {"requests": given.requests, "resident_mib": [round(mib, 1) for mib in resident_mib]},
        "exit_code": code,
    }
    if given.out:
        write_json(given.out, document)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
