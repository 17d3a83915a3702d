"""How much memory a run may plan with, and what is taken beside tensors."""

import psutil
import pytest
import torch

from tonetune.device import memory
from tonetune.device.memory import available_bytes, heap_bytes, library_bytes

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
