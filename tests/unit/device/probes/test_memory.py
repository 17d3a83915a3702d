"""P5 and P9 catch a copy that loses bytes and a machine that gives less than it says it has."""

import psutil
import pytest
import torch

from tonetune.device.memory import HOST_FULL
from tonetune.device.probes import memory
from tonetune.device.probes.memory import bisect_block, compare_copy, probe_largest_block, probe_pinned
from tonetune.device.probes.result import NothingToMeasure


def test_without_a_gpu_there_is_nothing_to_pin_for():
    with pytest.raises(NothingToMeasure, match="no GPU"):
        probe_pinned("cpu", thorough=False)


def test_a_copy_must_arrive_whole(monkeypatch):
    monkeypatch.setattr(memory, "PINNED_BYTES", 1 << 16)
    assert compare_copy("cpu", lambda source, device: source.clone()).passed
    torn = compare_copy("cpu", lambda source, device: torch.cat([source[:-100], source[-100:] ^ 1]))
    assert not torn.passed and torn.value == 100


@pytest.mark.parametrize("full", [MemoryError(), RuntimeError(f"{HOST_FULL}: 12 bytes"), torch.cuda.OutOfMemoryError()])
@pytest.mark.parametrize("largest", [0, 1000, 640_000, 999_999])
def test_the_largest_block_is_found(full, largest):
    def allocate(num_bytes, device):
        if num_bytes > largest:
            raise full

    assert largest - 1_000_000 / 2**6 <= bisect_block(1_000_000, "cpu", allocate) <= largest


def test_another_failure_is_not_taken_for_a_full_memory():
    def allocate(num_bytes, device):
        raise RuntimeError("HIP error: invalid argument")

    with pytest.raises(RuntimeError, match="invalid argument"):
        bisect_block(1000, "cpu", allocate)


def test_less_than_is_free_is_a_failure(monkeypatch):
    free = psutil.virtual_memory().available
    monkeypatch.setattr(memory, "MOST_HOST_BYTES", 1 << 20)
    assert probe_largest_block("cpu", thorough=False).passed

    def allocate(num_bytes, device):
        if num_bytes > min(free // 2, 1 << 20) // 2:
            raise MemoryError

    found = probe_largest_block("cpu", thorough=False, allocate=allocate)
    assert not found.passed and 0 < found.value < found.limit
