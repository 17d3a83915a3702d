"""How much memory a run may plan with, and what is taken beside tensors."""

import psutil
import pytest
import torch

from tonetune.device import memory
from tonetune.device.memory import available_bytes, heap_bytes, library_bytes, memory_errors
from tonetune.errors import DeviceError, OutOfMemory

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def group(monkeypatch, tmp_path):
    """Sets the files of the control group: the limit, and what is used."""
    monkeypatch.setattr(memory, "CGROUP", tmp_path)

    def write(limit: str, used: int) -> None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")

    return write


def test_on_a_gpu_it_is_most_of_what_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (50 << 30, 64 << 30))
    assert 0.9 * (50 << 30) < available_bytes(GPU) < 50 << 30


def test_on_a_cpu_a_container_counts_what_its_limit_leaves(group):
    free = psutil.virtual_memory().available
    group("max", 1 << 30)
    assert 0.7 * free < available_bytes(CPU) < 0.9 * free
    group(str(1 << 30), 1 << 29)
    assert available_bytes(CPU) == (1 << 29) * 8 // 10


def test_without_control_groups_it_is_what_the_machine_has(group):
    assert 0 < available_bytes(CPU) < psutil.virtual_memory().total


def test_only_a_cpu_keeps_more_than_tensors():
    assert library_bytes(GPU) == heap_bytes(1 << 30, GPU) == 0
    assert library_bytes(CPU) > 0 and heap_bytes(2 << 20, CPU) == 2 * heap_bytes(1 << 20, CPU) > 0


FAILED = [
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be"),
    torch.AcceleratorError("HIP error: invalid device function"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("HIP error: unspecified launch failure"),
    RuntimeError("hipErrorLaunchFailure"),
    RuntimeError("cuBLAS error: CUBLAS_STATUS_EXECUTION_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_MAPPING_ERROR"),
    RuntimeError("MIOpen Error: /src/ocl/convolutionocl.cpp:517"),
    RuntimeError("NCCL Error 1: unhandled cuda error"),
]
BUGS = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
    RuntimeError("expected scalar type Half"),
    ValueError(),
]


@pytest.mark.parametrize("error", FAILED, ids=str)
def test_a_card_that_fails_is_called_that_whichever_library_says_so(error):
    with pytest.raises(DeviceError, match="the GPU failed: ") as caught, memory_errors("training"):
        raise error
    assert "\n" not in caught.value.what and "doctor" in caught.value.hint and caught.value.where == "training"


@pytest.mark.parametrize("error", BUGS, ids=str)
def test_a_bug_stays_one(error):
    with pytest.raises(type(error)) as caught, memory_errors("training"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("no"), RuntimeError(f"x: {memory.HOST_FULL}")])
def test_memory_that_ran_out_is_called_that(error):
    with pytest.raises(OutOfMemory, match="out of memory"), memory_errors("training"):
        raise error
