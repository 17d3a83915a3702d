"""The doors through which a machine is looked at: files, programs, variables. A test opens others."""

import contextlib
import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECRET = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "AUTH")
VARIABLES = ("HIP_", "CUDA_", "ROCR_", "HSA_", "AMD_", "GPU_", "NCCL_", "PYTORCH_", "TORCH_", "OMP_", "MKL_", "HF_HUB_")
"""Beginnings of the names of variables that change what a device does."""

LIBRARY_PATH = "LD_LIBRARY_PATH"
KILLED_WITHIN_S = 2.0


@dataclass(frozen=True)
class Ended:
    """How a program ended and what it wrote: `code` is None where it is not installed or ran out of time."""

    code: int | None
    out: str = ""
    err: str = ""
    timed_out: bool = False


def run_program(command: Sequence[str], limit_s: float) -> Ended:
    """Run a program in a session of its own, which is killed whole after `limit_s` seconds; stdin is empty."""
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return Ended(None)
    try:
        out, err = child.communicate(timeout=limit_s)
        return Ended(child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    except subprocess.TimeoutExpired:
        _kill(child)
        try:
            out, err = child.communicate(timeout=KILLED_WITHIN_S)
        except subprocess.TimeoutExpired as stuck:  # inside a driver, where no signal reaches it
            out, err = stuck.stdout or b"", stuck.stderr or b""
        return Ended(None, out.decode(errors="replace"), err.decode(errors="replace"), timed_out=True)
    except BaseException:
        _kill(child)
        raise


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def open_device(path: Path) -> None:
    """Open a device file to read and write and close it again. Raises OSError where that is not allowed."""
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))


def group_of(path: Path) -> int | None:
    """Number of the group that a file belongs to, None where there is no such file."""
    try:
        return path.stat().st_gid
    except OSError:
        return None


def installed_version(package: str) -> str | None:
    """Version of a package in this Python, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Host:
    """Everything the doctor learns of a machine, it learns through one of these."""

    root: Path
    environ: Mapping[str, str]
    system: str
    python: str
    architecture: str
    run: Callable[[Sequence[str], float], Ended]
    open_device: Callable[[Path], None]
    group_of: Callable[[Path], int | None]
    version_of: Callable[[str], str | None]

    @classmethod
    def this(cls) -> "Host":
        """The machine that this process runs on."""
        return cls(
            root=Path("/"),
            environ=os.environ,
            system=platform.system(),
            python=platform.python_version(),
            architecture=platform.machine(),
            run=run_program,
            open_device=open_device,
            group_of=group_of,
            version_of=installed_version,
        )

    def text(self, path: str) -> str | None:
        """What a file below the root holds, stripped; None where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError):
            return None

    def entries(self, directory: str) -> list[str]:
        """Names in a directory below the root, numbers in their order; none where it cannot be read."""
        try:
            names = os.listdir(self.root / directory)
        except OSError:
            return []
        return sorted(names, key=lambda name: (int(name), "") if name.isdecimal() else (sys.maxsize, name))

    def access(self, path: str) -> str:
        """Whether this process may use a device file: "open", "denied" or "absent"."""
        try:
            self.open_device(self.root / path)
        except FileNotFoundError:
            return "absent"
        except OSError:
            return "denied"
        return "open"


def device_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what a device does, by name; none whose name speaks of a secret."""
    known = {k: v for k, v in sorted(environ.items()) if k.startswith(VARIABLES) or k == LIBRARY_PATH}
    return {k: v for k, v in known.items() if not any(word in k.upper() for word in SECRET)}
