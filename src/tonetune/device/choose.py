"""Choices made for the user about the device, each returned with its reason."""

import os
import time
from dataclasses import dataclass
from typing import Generic, TypeVar

import psutil
import torch

from tonetune.errors import DeviceError

T = TypeVar("T")


@dataclass(frozen=True)
class Choice(Generic[T]):
    """A value and why it was chosen."""

    value: T
    reason: str

    def as_dict(self) -> dict[str, object]:
        value: object = self.value
        if isinstance(value, torch.dtype):
            value = dtype_name(value)
        plain = isinstance(value, (str, int, float, bool, type(None)))
        return {"value": value if plain else str(value), "reason": self.reason}


def choose_device() -> Choice[torch.device]:
    """The first GPU that computes, else the CPU. ROCm devices are called "cuda" by PyTorch too.

    Raises DeviceError where torch sees a GPU whose first kernel fails.
    """
    if not torch.cuda.is_available():
        return Choice(torch.device("cpu"), "torch sees no GPU")
    device = torch.device("cuda", torch.cuda.current_device())
    name = torch.cuda.get_device_name(device)
    try:
        total = float(torch.ones(64, device=device).sum())
    except RuntimeError as error:
        raise DeviceError(
            f"torch sees {name} but its first kernel failed: {error}".splitlines()[0],
            where=str(device),
            hint="the torch build may lack this card's architecture: " + ", ".join(torch.cuda.get_arch_list()),
        ) from error
    if total != 64.0:
        raise DeviceError(f"{name} sums 64 ones to {total}", where=str(device), hint="try another torch build")
    return Choice(device, f"{name} computed a sum")


def choose_dtype(requested: str, device: torch.device) -> Choice[torch.dtype]:
    """The type the body computes in; adapter, head, norms and loss are float32 whatever it is."""
    if requested != "auto":
        return Choice(getattr(torch, requested), "set by model.dtype")
    if device.type == "cpu":
        ratio = _bfloat16_speedup()
        measured = f"a bfloat16 matrix product ran {ratio:.1f} times as fast as float32 on this processor"
        return Choice(torch.bfloat16 if ratio >= 1.5 else torch.float32, measured)
    if torch.version.hip is None and not torch.cuda.is_bf16_supported(including_emulation=False):
        return Choice(torch.float32, "this card has no bfloat16 units, and float16 overflows in Gemma")
    return Choice(torch.bfloat16, "matrix units of data-centre GPUs compute bfloat16; float16 overflows in Gemma")


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a number format as a config has it, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def choose_attention(requested: str, default: str, reason: str) -> Choice[str]:
    """The attention kernel: the family's own, unless the user names one."""
    return Choice(default, reason) if requested == "auto" else Choice(requested, "set by model.attention")


def choose_micro_batch_tokens(requested: str | int, device: torch.device) -> Choice[int]:
    """How many padded tokens one forward pass may hold."""
    if requested != "auto":
        return Choice(int(requested), "set by train.micro_batch_tokens")
    if device.type == "cpu":
        return Choice(1024, "more tokens at once are not faster on a CPU and take more memory")
    return Choice(8192, "a batch of short texts in one pass; larger passes gain little on a GPU")


def call_tokens(device: torch.device) -> int:
    """The fixed cost of one forward pass, in tokens: what a micro-batch must save in padding to be worth its call."""
    return 48 if device.type == "cpu" else 4096


def reset_peak_memory(device: torch.device) -> float:
    """Begin a measurement of peak memory; what to subtract from `peak_memory_mib` at its end, in MiB.

    On a GPU the peak starts anew and nothing is to be taken off; on a CPU it is what is resident now.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return 0.0
    return float(psutil.Process().memory_info().rss) / 2**20


def peak_memory_mib(device: torch.device) -> float:
    """Peak so far, in MiB: memory allocated by torch since the last reset on a GPU, resident memory on a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device)) / 2**20
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _bfloat16_speedup() -> float:
    """Time of a float32 product over that of a bfloat16 one, at the shape of a small body's MLP; about 0.1 s."""
    times = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = torch.ones(256, 640, dtype=dtype), torch.ones(2048, 640, dtype=dtype)
        laps = []
        for _ in range(8):
            began = time.perf_counter()
            torch.nn.functional.linear(left, right)
            laps.append(time.perf_counter() - began)
        times[dtype] = min(laps)
    return times[torch.float32] / times[torch.bfloat16]


def environment_variables() -> dict[str, str]:
    """The variables that change what a device does, as they are set now."""
    prefixes = ("HIP_", "CUDA_", "ROCR_", "HSA_", "PYTORCH_", "TORCH_", "OMP_", "MKL_", "HF_HUB_")
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes)}
