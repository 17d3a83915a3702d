"""The child process: answers one probe after the other over a connection. `python -m tonetune.device.probes FD`."""

import importlib
import json
import os
import sys
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from tonetune.device.probes.record import describe_machine
from tonetune.device.probes.result import Measurement, NothingToMeasure


def main() -> None:
    """Say what machine this is, then answer each request {"function", "thorough"} until the parent is gone."""
    with Connection(int(sys.argv[1])) as connection:
        _send(connection, {"machine": describe_machine()})
        while True:
            try:
                request = json.loads(connection.recv_bytes())
            except EOFError:
                return
            _send(connection, answer(**request))


def _send(connection: Connection, document: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(document, allow_nan=False).encode())


def answer(function: str, thorough: bool) -> dict[str, Any]:
    """Status and measurement of one probe."""
    module, name = function.split(":")
    try:
        found: Measurement = getattr(importlib.import_module(module), name)(device_name(), thorough=thorough)
    except NothingToMeasure as reason:
        return {"status": "skipped", "detail": str(reason)}
    except ModuleNotFoundError as error:
        return {"status": "skipped", "detail": f"{error.name} is not installed"}
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return {"status": "crashed", "detail": f"{type(error).__name__}: {first.strip()}"}
    fields = asdict(found)
    return {"status": "passed" if fields.pop("passed") else "failed", **fields}


def device_name() -> str:
    """The device to measure, by torch's name of its kind."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


if __name__ == "__main__":
    os.dup2(2, 1)  # what a library prints is no answer
    main()
