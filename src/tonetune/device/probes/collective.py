"""P8: a sum over processes, through NCCL (RCCL on ROCm) between GPUs, else through gloo on the CPU."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from tonetune.device.probes.result import Measurement, NothingToMeasure

NUMBERS = 1 << 16
LIMIT = timedelta(seconds=60)

Reduce = Callable[[Tensor], None]


def sum_over_all(tensor: Tensor) -> None:
    """Replace `tensor` by its sum over the processes."""
    dist.all_reduce(tensor)


def probe_collective(device: str, *, thorough: bool, reduce: Reduce = sum_over_all) -> Measurement:
    """The largest error of the sum of rank + 1 over the ranks: one for each GPU, or two on a CPU or a single GPU."""
    if not dist.is_available():
        raise NothingToMeasure("this torch is built without torch.distributed")
    gpus = torch.cuda.device_count() if device == "cuda" else 0
    kind, ranks = ("cuda", gpus) if gpus > 1 else ("cpu", 2)
    with tempfile.TemporaryDirectory() as directory:
        spawn(_rank, (ranks, kind, directory, reduce), nprocs=ranks)
        errors = [float((Path(directory) / f"error{rank}").read_text()) for rank in range(ranks)]
    detail = f"{ranks} processes over {_backend(kind)}"
    return Measurement(max(errors) == 0.0, max(errors), 0.0, detail, {"ranks": float(ranks)})


def _backend(kind: str) -> str:
    return "nccl" if kind == "cuda" else "gloo"


def _rank(rank: int, ranks: int, kind: str, directory: str, reduce: Reduce) -> None:
    """One process: take part in the sum, and write its largest error to a file."""
    if kind == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        _backend(kind), init_method=f"file://{directory}/meeting", rank=rank, world_size=ranks, timeout=LIMIT
    )
    tensor = torch.full((NUMBERS,), float(rank + 1), device=kind)
    reduce(tensor)
    error = float((tensor - ranks * (ranks + 1) / 2).abs().max())
    (Path(directory) / f"error{rank}").write_text(str(error))
    dist.destroy_process_group()
