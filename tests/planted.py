"""Probes that go wrong on purpose, for the child process that runs them."""

import os
import signal
import time

from tonetune.device.probes.result import Measurement, NothingToMeasure


def good(device: str, *, thorough: bool) -> Measurement:
    return Measurement(True, float(thorough), 1.0, f"on {device}", {"pid": float(os.getpid())})


def bad(device: str, *, thorough: bool) -> Measurement:
    return Measurement(False, None, 1.0, "not finite")


def hang(device: str, *, thorough: bool) -> Measurement:
    time.sleep(600)
    raise RuntimeError("nobody waits so long")


def killed(device: str, *, thorough: bool) -> Measurement:
    print("Memory access fault by GPU node-1", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("it is dead")


def raises(device: str, *, thorough: bool) -> Measurement:
    raise RuntimeError("\nHIP error: invalid device function\nmore")


def nothing(device: str, *, thorough: bool) -> Measurement:
    raise NothingToMeasure("there is no such part")


def missing(device: str, *, thorough: bool) -> Measurement:
    import tonetune_has_no_such_module  # noqa: F401

    raise RuntimeError("it is there")


def sum_of_one(tensor: object) -> None:
    """A sum over processes that sums nothing."""
