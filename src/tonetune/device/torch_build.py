"""The torch of this Python, looked at from a child process: its build, the cards it sees, whether they compute.

The child writes a line of JSON after each step, so that a crash or a hang still tells how far it came.
"""

import importlib.util
import json
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.device.cards import Card, telling
from tonetune.device.host import Ended, Host
from tonetune.device.sysfs import pci_address

LIMIT_S = 90.0
ONES = 64
LONGEST_LINE = 300
FAULTS = ("memory access fault", "hip error", "cuda error", "segmentation fault", "no kernel image", "error")


@dataclass(frozen=True)
class TorchBuild:
    """The installed torch. `status` is that of `import torch`: "works", "missing", "broken", "hangs".

    `kernels` has for each card that torch sees what a sum on it did: "works", "wrong", "failed", "crashed", "hangs",
    or "untried" behind a card that ended the attempt. `error` is the first thing that went wrong.
    """

    status: str
    version: str | None = None
    hip: str | None = None
    cuda: str | None = None
    archs: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    kernels: tuple[str, ...] = ()
    error: str | None = None
    mps: bool = False

    @property
    def backend(self) -> str | None:
        """What it is built for: "rocm", "cuda", "mps" or "cpu"; None where there is no torch."""
        if self.version is None:
            return None
        return "rocm" if self.hip else "cuda" if self.cuda else "mps" if self.mps else "cpu"


def torch_build(host: Host) -> TorchBuild:
    """Look at torch in a child process of at most LIMIT_S seconds, which imports from where this one does."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from tonetune.device.torch_build import main; main()"
    return read_build(host.run((sys.executable, "-c", code), LIMIT_S))


def torch_here() -> TorchBuild:
    """The torch of this process, which has computed on its first card; starts nothing and computes nothing."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    hip = torch.version.hip
    return TorchBuild(
        status="works",
        version=str(torch.__version__),
        hip=hip,
        cuda=torch.version.cuda,
        archs=tuple(arch.split(":")[0] for arch in torch.cuda.get_arch_list()),
        cards=tuple(_card(i, _seen(torch.cuda.get_device_properties(i), hip=bool(hip))) for i in range(count)),
        kernels=("works",) if count else (),
        mps=torch.backends.mps.is_available(),
    )


def read_build(child: Ended) -> TorchBuild:
    """What the child's lines and its end say; lines that are not its own are passed over."""
    facts: dict[str, Any] = {}
    for line in child.out.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            facts.update(said)
    if facts.get("found") is False:
        return TorchBuild("missing")
    ending = "hangs" if child.timed_out else "works" if child.code == 0 else "crashed"
    cards = [_card(index, seen) for index, seen in enumerate(facts.get("devices", ()))]
    sums = [*facts.get("sums", ()), *([ending] if ending != "works" else [])]
    kernels = [_kernel(sum_) for sum_ in sums[: len(cards)]]
    errors = [facts.get("error"), *(sum_ for sum_ in facts.get("sums", ()) if isinstance(sum_, str))]
    last = None if ending == "works" else _last_words(child)
    return TorchBuild(
        status="works" if "imported" in facts else "hangs" if child.timed_out else "broken",
        version=facts.get("version"),
        hip=facts.get("hip"),
        cuda=facts.get("cuda"),
        archs=tuple(arch.split(":")[0] for arch in facts.get("archs", ())),
        cards=tuple(cards),
        kernels=(*kernels, *["untried"] * (len(cards) - len(kernels))),
        error=next((error for error in (*errors, last, facts.get("warning")) if error), None),
        mps=bool(facts.get("mps")),
    )


def _kernel(sum_: float | str) -> str:
    """The status of a card that answered with a sum, with an error, or ended the child."""
    if isinstance(sum_, str):
        return sum_ if sum_ in ("hangs", "crashed") else "failed"
    return "works" if sum_ == ONES else "wrong"


def _card(index: int, seen: dict[str, Any]) -> Card:
    amd = bool(seen["gcn"])
    return Card(
        "amd" if amd else "nvidia",
        name=telling(seen["name"]),
        arch=seen["gcn"].split(":")[0] if amd else f"sm_{seen['capability']}",
        memory_mib=seen["memory_bytes"] / 2**20,
        pci=pci_address(seen["pci"]),
        integrated=bool(seen["integrated"]),
        torch=f"cuda:{index}",
    )


def _last_words(child: Ended) -> str | None:
    """The line of stderr that names the fault, else the last one, else the signal."""
    lines = [line.strip() for line in child.err.splitlines() if line.strip()]
    named = [line for fault in FAULTS for line in lines if re.search(fault, line, re.IGNORECASE)]
    if child.timed_out:
        return f"no answer within {LIMIT_S:.0f} s"
    ended = f"signal {-child.code}" if child.code is not None and child.code < 0 else f"exit code {child.code}"
    return first_line(next(iter([*named, *lines[-1:]]), ended))


def _steps() -> Iterator[dict[str, object]]:
    """What the child finds, step by step: the build, the import, the cards, a sum on each."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        yield {"found": False}
        return
    for package in spec.submodule_search_locations or ():
        build = runpy.run_path(str(Path(package) / "version.py"))
        yield {"version": str(build.get("__version__")), "hip": build.get("hip"), "cuda": build.get("cuda")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch

        yield {"imported": True}
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        yield {"archs": torch.cuda.get_arch_list(), "mps": torch.backends.mps.is_available()}
    yield {"warning": first_line(caught[-1].message) if caught and not count else None}
    yield {"devices": [_seen(torch.cuda.get_device_properties(i), hip=bool(torch.version.hip)) for i in range(count)]}
    sums: list[float | str] = []
    for index in range(count):
        try:
            sums.append(float(torch.ones(ONES, device=f"cuda:{index}").sum()))
        except RuntimeError as error:
            sums.append(first_line(error))
        yield {"sums": sums}


def _seen(properties: Any, *, hip: bool) -> dict[str, object]:
    """What torch says of a card; the compute capability counts on NVIDIA only, where ROCm mimics one."""
    place: list[Any] = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return {
        "name": properties.name,
        "gcn": properties.gcnArchName if hip else "",
        "capability": f"{properties.major}{properties.minor}",
        "memory_bytes": properties.total_memory,
        "integrated": bool(properties.is_integrated),
        "pci": None if None in place else "{:04x}:{:02x}:{:02x}".format(*map(int, place)),
    }


def first_line(error: object) -> str:
    """The first line of an error's message that is not empty, else its class; cut where it does not end."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def main() -> None:
    """The child: a line of JSON after each step. Whatever importing torch raises is a finding."""
    try:
        for step in _steps():
            sys.stdout.write(json.dumps(step) + "\n")
            sys.stdout.flush()
    except Exception as error:
        sys.stdout.write(json.dumps({"error": f"{type(error).__name__}: {first_line(error)}"}) + "\n")
