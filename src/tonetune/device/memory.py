"""Memory: how much there is, what is taken beside tensors, and running out of it as an error with a way out."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from tonetune.errors import DeviceError, TrainingError

HOST_FULL = "can't allocate memory"  # what torch's allocator says on a CPU, in a bare RuntimeError

WHEN_TRAINING = "lower train.micro_batch_tokens or data.max_length, or set train.checkpointing: true"
WHEN_SCORING = "free memory: other programs use it, or the machine is too small for this base"

CGROUP = Path("/sys/fs/cgroup")
HOST_LIBRARY_BYTES = 400 << 20
"""On a CPU, beside the weights of a loaded model: transformers, peft, the tokenizer. Measured: docs/memory.md."""
HOST_HEAP_PART = 1.0
"""What the heap keeps in holes, as a part of the activations that come and go. Measured: docs/memory.md."""


def available_bytes(device: torch.device) -> int:
    """Memory that a run may plan with: what is free now, less a part for what no plan knows.

    On a CPU a container's limit counts too.
    """
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free * 92 // 100
    return min(int(psutil.virtual_memory().available), _container_bytes()) * 8 // 10


def _container_bytes() -> int:
    """What the control group still allows; everything where there is no limit, or it cannot be read."""
    try:
        limit, used = ((CGROUP / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # no version 2 of control groups, or "max": no limit
        return int(psutil.virtual_memory().total)


def library_bytes(device: torch.device) -> int:
    """What libraries take on the device beside tensors."""
    return HOST_LIBRARY_BYTES if device.type == "cpu" else 0


def heap_bytes(activations: int, device: torch.device) -> int:
    """What the allocator keeps beside the activations; a GPU's peak is counted without it."""
    return int(activations * HOST_HEAP_PART) if device.type == "cpu" else 0


def ran_out(error: Exception) -> bool:
    """Whether an error says that there is no more memory, on card or host."""
    host = isinstance(error, RuntimeError) and HOST_FULL in str(error)
    return host or isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))


@contextlib.contextmanager
def memory_errors(step: str, *, hint: str = WHEN_TRAINING) -> Iterator[None]:
    """Raises TrainingError where memory runs out inside, DeviceError where the GPU fails; `step` says in what."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise TrainingError(f"the GPU is out of memory: {str(error).splitlines()[0]}", where=step, hint=hint) from error
    except torch.AcceleratorError as error:
        raise DeviceError(f"the GPU failed: {str(error).splitlines()[0]}", where=step, hint="start again") from error
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise TrainingError("the machine is out of memory", where=step, hint=hint) from error
