"""Choices made for the user about the device, each returned with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import psutil
import torch

from tonetune.device.probes.result import ProbeResult
from tonetune.device.speed import product_flops_per_s
from tonetune.device.wheels import in_range
from tonetune.errors import DeviceError

CUDNN_NAN = ">=2.13,<2.14"
"""The versions of torch whose cuDNN attention gives NaN gradients (trl#7181)."""

WITHOUT_BFLOAT16 = ("gfx900", "gfx906", "gfx1030")
"""AMD's architectures without matrix units for bfloat16, where torch computes it in steps and slowly."""

T = TypeVar("T")
Probes = Mapping[str, ProbeResult]
"""What probes found on this machine before, by their ids; those that never ran are absent."""


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
            hint="tonetune doctor; this torch build has kernels for " + ", ".join(torch.cuda.get_arch_list()),
        ) from error
    if total != 64.0:
        raise DeviceError(f"{name} sums 64 ones to {total}", where=str(device), hint="try another torch build")
    return Choice(device, f"{name} computed a sum")


def choose_dtype(requested: str, device: torch.device, probes: Probes) -> Choice[torch.dtype]:
    """The type the body computes in; adapter, head, norms and loss are float32 whatever it is.

    bfloat16 where the device has units for it, unless a probe found it wrong on this machine.
    """
    if requested != "auto":
        return Choice(getattr(torch, requested), "set by model.dtype")
    found = _native_dtype(device)
    if found.value == torch.bfloat16:
        for probe in (probes.get("P1"), probes.get("P3")):
            if probe and (probe.facts.get("bfloat16_used", 0.0) > 1.0 or probe.facts.get("bfloat16_finite") == 0.0):
                return Choice(torch.float32, f"bfloat16 failed {_sentence(probe)}")
    return Choice(found.value, _with_probe(found.reason, probes, "P1"))


def _native_dtype(device: torch.device) -> Choice[torch.dtype]:
    if device.type == "cpu":
        ratio = _bfloat16_speedup()
        measured = f"a bfloat16 matrix product ran {ratio:.1f} times as fast as float32 on this processor"
        return Choice(torch.bfloat16 if ratio >= 1.5 else torch.float32, measured)
    if torch.version.hip is None and not torch.cuda.is_bf16_supported(including_emulation=False):
        return Choice(torch.float32, "this card has no bfloat16 units, and float16 overflows in Gemma")
    if torch.version.hip is not None:
        arch = torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]
        if arch in WITHOUT_BFLOAT16:
            return Choice(torch.float32, f"{arch} has no bfloat16 matrix units, and float16 overflows in Gemma")
    return Choice(torch.bfloat16, "matrix units of data-centre GPUs compute bfloat16; float16 overflows in Gemma")


def _sentence(probe: ProbeResult) -> str:
    return f"probe {probe.id} on this machine: {probe.detail}"


def _with_probe(reason: str, probes: Probes, id: str) -> str:
    """A reason with what a probe measured, or that it never did."""
    probe = probes.get(id)
    return f"{reason}; {_sentence(probe) if probe else f'probe {id} has not run on this machine'}"


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a number format as a config has it, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def choose_attention(
    requested: str, kernels: Sequence[str], reason: str, dtype: torch.dtype, probes: Probes
) -> Choice[str]:
    """The attention kernel: the first of the family's `kernels`, which `reason` speaks for, unless the user names one.

    Where fused attention failed its probe in this number format, or ended it, plain operations take its place.
    """
    if requested != "auto":
        return Choice(requested, "set by model.attention")
    if kernels[0] != "sdpa":
        return Choice(kernels[0], reason)
    probe = probes.get("P4")
    wrong = probe and probe.facts.get(f"{dtype_name(dtype)}_used", 0.0) > 1.0
    if probe and (wrong or probe.status in ("crashed", "timeout")):
        return Choice("eager", f"fused attention failed {_sentence(probe)}")
    return Choice("sdpa", _with_probe(reason, probes, "P4"))


def choose_compile(requested: str | bool, probes: Probes) -> Choice[bool]:
    """Whether decoder layers are compiled: not unless the user asks for it."""
    if not isinstance(requested, str):
        return Choice(requested, "set by train.compile")
    reason = "compiling for all lengths takes minutes, which short runs do not win back"
    return Choice(False, _with_probe(reason, probes, "P6"))


def choose_pinned_memory(probes: Probes) -> Choice[bool]:
    """Whether copies to the device go through pinned memory."""
    reason = "the data set is copied to the device once, so no batch waits for a copy"
    return Choice(False, _with_probe(reason, probes, "P5"))


def choose_cudnn_attention(device: torch.device) -> Choice[bool]:
    """Whether torch may take cuDNN's attention kernels, which on NVIDIA are among those it chooses from."""
    if device.type == "cpu" or torch.version.hip is not None:
        return Choice(False, "cuDNN is for NVIDIA cards")
    if in_range(torch.__version__, CUDNN_NAN):
        return Choice(False, "cuDNN's attention gives NaN gradients in torch 2.13")
    return Choice(True, "torch chooses among its kernels")


def settle_cudnn_attention(choice: Choice[bool]) -> None:
    """Switch cuDNN's attention off for this process where it is not to be taken."""
    if not choice.value:
        torch.backends.cuda.enable_cudnn_sdp(False)


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
    resident = float(psutil.Process().memory_info().rss) / 2**20
    return min(resident, peak_memory_mib(device))  # the system counts the peak a little late


def peak_memory_mib(device: torch.device) -> float:
    """Peak so far, in MiB: memory allocated by torch since the last reset on a GPU, resident memory on a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device)) / 2**20
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _bfloat16_speedup() -> float:
    """Speed of a bfloat16 product over that of a float32 one on the CPU; about 0.1 s."""
    return product_flops_per_s(torch.bfloat16, "cpu") / product_flops_per_s(torch.float32, "cpu")
