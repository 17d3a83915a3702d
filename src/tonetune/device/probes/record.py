"""What probes found, kept by what it depends on: torch, driver, card, libraries, steering variables, and their code."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tonetune import __version__
from tonetune.device.kept import keep, read_kept
from tonetune.device.probes.catalogue import PROBES, Probe
from tonetune.device.probes.result import ProbeResult

LIBRARIES = ("torch", "transformers", "peft", "tokenizers")
STEERING = ("HIP_", "CUDA_", "ROCR_", "HSA_", "PYTORCH_", "TORCH_", "MIOPEN_", "HIPBLASLT_", "ROCBLAS_")
DRIVERS = (Path("/sys/module/amdgpu/version"), Path("/proc/driver/nvidia/version"))

Machine = dict[str, Any]


def describe_machine() -> Machine:
    """All that a probe's result depends on. Starts the GPU's runtime where torch finds one."""
    return {
        "python": platform.python_version(),
        "tonetune": __version__,
        "processor": f"{platform.machine()} × {os.cpu_count()}",
        "libraries": {name: _version(name) for name in LIBRARIES},
        "driver": next((path.read_text().splitlines()[0] for path in DRIVERS if path.is_file()), None),
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(STEERING)},
        "cards": _cards(),
    }


def _cards() -> list[str]:
    try:
        import torch
    except ImportError:
        return []
    cards = []
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        arch = getattr(card, "gcnArchName", None) or f"{card.major}.{card.minor}"
        cards.append(f"{card.name} {arch} {card.total_memory >> 20} MiB")
    return cards


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def read_results(machine: Machine, probes: Sequence[Probe] = PROBES) -> list[tuple[ProbeResult, bool]]:
    """The latest results of these probes on this machine and whether each was thorough.

    Leaves out what another version of a probe's code found; none where none was kept, or it is damaged.
    """
    sources = {probe.id: probe.source for probe in probes}
    try:
        rows = [r for r in read_kept("probes", machine) or [] if (r["result"]["id"], r["source"]) in sources.items()]
        return [(ProbeResult(**row["result"]), bool(row["thorough"])) for row in rows]
    except (KeyError, TypeError):
        return []


def known_results() -> dict[str, ProbeResult]:
    """The latest results on this machine by their ids; measures nothing."""
    return {result.id: result for result, _ in read_results(describe_machine())}


def write_results(
    machine: Machine, results: Sequence[tuple[ProbeResult, bool]], probes: Sequence[Probe] = PROBES
) -> None:
    """Keep results of these probes beside those of the others in the table."""
    known = {probe.id: probe for probe in (*PROBES, *probes)}
    latest = {
        result.id: (result, thorough) for result, thorough in [*read_results(machine, [*known.values()]), *results]
    }
    rows = [
        {"result": result.as_dict(), "thorough": thorough, "source": known[result.id].source}
        for result, thorough in latest.values()
    ]
    keep("probes", machine, rows)
