"""Memory: how much there is, what is taken beside tensors, and running out of it as an error with a way out."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from tonetune.errors import DeviceError, OutOfMemory

HOST_FULL = "can't allocate memory"  # what torch's allocator says on a CPU, in a bare RuntimeError

CARD_FAILED = re.compile(
    r"\b(CUDA|HIP|cuBLAS|cuDNN|hipBLAS|rocBLAS|MIOpen|NCCL|RCCL) error\b|\b(cuda|hip)Error[A-Z]|device-side assert",
    re.IGNORECASE,
)
"""What drivers and their libraries say through torch in a bare RuntimeError, where there is no AcceleratorError."""

WHEN_TRAINING = "lower train.micro_batch_tokens or data.max_length, or set train.checkpointing: true"
WHEN_SCORING = "free memory: other programs use it, or the machine is too small for this base"

WHEN_LOST = "start a new process: this one has lost the card; tonetune doctor says whether it computes"

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
    """Raises OutOfMemory where memory runs out inside, DeviceError where the GPU fails; `step` says in what."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise OutOfMemory(f"the GPU is out of memory: {str(error).splitlines()[0]}", where=step, hint=hint) from error
    except (MemoryError, RuntimeError) as error:
        if ran_out(error):
            raise OutOfMemory("the machine is out of memory", where=step, hint=hint) from error
        if failed := card_failure(error):
            raise DeviceError(f"the GPU failed: {failed}", where=step, hint=WHEN_LOST) from error
        raise


def card_failure(error: Exception) -> str | None:
    """What a GPU's driver said, None for an error of another kind."""
    text = str(error)
    if isinstance(error, torch.AcceleratorError) or CARD_FAILED.search(text):
        return (text or type(error).__name__).splitlines()[0]
    return None
