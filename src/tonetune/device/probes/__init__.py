"""Measurements of this machine, each in a child process: a crash, a hang or a memory fault is a result, not the end."""

from tonetune.device.probes.result import ProbeResult
from tonetune.device.probes.run import run_probes

__all__ = ["ProbeResult", "run_probes"]
