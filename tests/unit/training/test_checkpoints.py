"""Laws of checkpoints: whole or not there, and whoever reads one knows which."""

import errno
import os

import pytest
import torch

from tonetune.errors import DataError, DiskError
from tonetune.training.checkpoints import (
    MANIFEST,
    STATE,
    checkpoints_in,
    newest_whole,
    read_checkpoint,
    remove_checkpoint,
    remove_leftovers,
    write_checkpoint,
)

STATE_DOCUMENT = {"step": 3, "order": {"generator": 2**127 + 1}, "loss": 0.1, "名": None}
TENSORS = {
    "adapter": {"a.weight": torch.randn(3, 2).T, "b": torch.tensor(float("nan"))},
    "random": {"torch": torch.arange(5, dtype=torch.uint8)},
}
FILES = [STATE, MANIFEST, "adapter.safetensors", "random.safetensors"]


def write(directory, *steps):
    for step in steps:
        write_checkpoint(directory / f"step-{step}", STATE_DOCUMENT, TENSORS)


def test_a_checkpoint_reads_back_equal(tmp_path):
    write(tmp_path / "checkpoints", 12)
    (path,) = checkpoints_in(tmp_path / "checkpoints")
    found = read_checkpoint(path)
    assert found.step == 12 and sorted(p.name for p in path.iterdir()) == sorted(FILES)
    assert found.state == {"schema": 1, **STATE_DOCUMENT}
    for name, part in TENSORS.items():
        for key, tensor in part.items():
            assert found.tensors[name][key].dtype == tensor.dtype
            assert found.tensors[name][key].numpy().tobytes() == tensor.contiguous().numpy().tobytes()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["a bit", "the end", "all of it", "gone"])
def test_damage_is_found_whatever_it_is_and_the_one_before_is_taken(tmp_path, name, harm):
    write(tmp_path, 9, 10)
    path = tmp_path / "step-10" / name
    content = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"a bit": flipped, "the end": content[:-2], "all of it": b""}[harm])
    with pytest.raises(DataError, match="damaged") as caught:
        read_checkpoint(tmp_path / "step-10")
    assert "step-10" in caught.value.where
    found, damaged = newest_whole(tmp_path)
    assert found is not None and found.step == 9 and len(damaged) == 1


def test_they_are_told_apart_by_number_and_by_what_fits(tmp_path):
    assert newest_whole(tmp_path / "absent") == (None, [])
    write(tmp_path, 9, 10, 100)
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-9", "step-10", "step-100"]
    found, damaged = newest_whole(tmp_path, fits=lambda checkpoint: checkpoint.step < 10)
    assert found is not None and found.step == 9 and len(damaged) == 2


@pytest.mark.parametrize("step", ["fsync", "rename", "mkdir"])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, step):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write(tmp_path, 1)
    monkeypatch.setattr(os, step, full)
    with pytest.raises(DiskError, match="the disk is full"):
        write(tmp_path, 2)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    assert read_checkpoint(tmp_path / "step-1").step == 1


def test_a_removed_one_is_never_there_in_part(tmp_path, monkeypatch):
    write(tmp_path, 1, 2)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr("shutil.rmtree", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        remove_checkpoint(tmp_path / "step-1")
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-2"]
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-2"]
