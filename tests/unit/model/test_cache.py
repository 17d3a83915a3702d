"""What the cache holds is whole or absent, whoever is killed, and a checksum is computed once for each file."""

import errno
import hashlib
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tonetune.cache import cache_root
from tonetune.errors import DiskError, ModelError
from tonetune.model import cache
from tonetune.model.cache import file_sha256, made_once, need_room


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty cache of this test's own."""
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def left_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def never(directory: Path) -> None:
    pytest.fail("made again")


def test_the_cache_is_where_the_user_says(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("TONETUNE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == Path("/home/me/.cache/tonetune")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert cache_root() == Path("/fast/tonetune")
    monkeypatch.setenv("TONETUNE_CACHE", "~/models")
    assert cache_root() == Path("/home/me/models")


def test_what_is_made_is_taken_as_it_is(root):
    assert made_once("a", lambda directory: (directory / "x").write_text("1")) == root / "a"
    assert made_once("a", never) == root / "a"
    assert (root / "a" / "x").read_text() == "1" and left_in(root) == ["a"]


@pytest.mark.parametrize("error", [ModelError("no"), KeyboardInterrupt()])
def test_what_fails_or_is_interrupted_leaves_nothing(root, error):
    def make(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise error

    with pytest.raises(type(error)):
        made_once("a", make)
    assert left_in(root) == []


def test_a_run_that_comes_second_keeps_the_first_ones_result(root):
    def make(directory: Path) -> None:
        (directory / "x").write_text("second")
        (root / "a").mkdir()
        (root / "a" / "x").write_text("first")

    assert (made_once("a", make) / "x").read_text() == "first"
    assert left_in(root) == ["a"]


def test_what_killed_runs_left_is_removed_and_running_ones_are_not(root):
    for name, age_s in (("old", 2 * cache.ABANDONED_S), ("new", 60)):
        left = root / f".a.{name}"
        left.mkdir(parents=True)
        os.utime(left, (time.time() - age_s,) * 2)
    made_once("a", lambda directory: None)
    assert left_in(root) == [".a.new", "a"]


def test_a_cache_that_cannot_be_made_is_a_disk_error(root):
    root.write_text("a file")
    with pytest.raises(DiskError) as caught:
        made_once("a", never)
    assert str(root) in str(caught.value.where)


def test_without_room_the_error_says_how_much_is_needed(root, monkeypatch):
    root.mkdir()
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=100 << 20))
    need_room(100 << 20, needed_for="it")
    with pytest.raises(DiskError, match="it needs 2,000 MiB while it is made, and 100 MiB are free") as caught:
        need_room(2000 << 20, needed_for="it")
    assert "TONETUNE_CACHE" in str(caught.value.hint)


# --- checksums


def test_a_checksum_is_that_of_the_whole_file_and_is_computed_once(root, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(os.urandom(3 * cache.BLOCK + 5))
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    assert file_sha256(file) == expected
    monkeypatch.setattr(cache.hashlib, "sha256", None)
    assert file_sha256(file) == expected


@pytest.mark.parametrize("change", ["content", "size"])
def test_another_content_is_another_checksum(root, tmp_path, change):
    file = tmp_path / "file"
    file.write_bytes(b"a" * 100)
    before = file_sha256(file)
    os.utime(file, ns=(1, 1))
    file_sha256(file)
    file.write_bytes(b"b" * 100 if change == "content" else b"a" * 99)
    if change == "size":
        os.utime(file, ns=(1, 1))
    assert file_sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest() != before


@pytest.mark.parametrize("memory", ["", "{", "[]", '{"x": 1}', "\ud800"])
def test_a_damaged_memory_is_forgotten(root, tmp_path, memory):
    file = tmp_path / "file"
    file.write_bytes(b"a")
    root.mkdir()
    (root / cache.CHECKSUMS).write_bytes(memory.encode(errors="surrogatepass"))
    assert file_sha256(file) == hashlib.sha256(b"a").hexdigest()


def test_where_nothing_can_be_remembered_the_checksum_is_right_all_the_same(root, tmp_path):
    root.write_text("a file")
    (tmp_path / "file").write_bytes(b"a")
    assert file_sha256(tmp_path / "file") == hashlib.sha256(b"a").hexdigest()


def test_a_file_that_cannot_be_read_is_named(root, tmp_path, monkeypatch):
    def broken(path, mode):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "file").write_bytes(b"a")
    monkeypatch.setattr(cache, "open", broken, raising=False)
    with pytest.raises(ModelError, match="cannot be read: Input/output error") as caught:
        file_sha256(tmp_path / "file")
    assert caught.value.where == str(tmp_path / "file")
