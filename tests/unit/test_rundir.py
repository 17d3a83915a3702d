"""Laws of the run directory: a file is there whole or not at all, whatever happens while it is written."""

import errno
import json
import math
import os
import stat
from pathlib import Path

import pytest

from tonetune.errors import DataError, DiskError
from tonetune.rundir import (
    RunDir,
    append_jsonl,
    now,
    read_json,
    read_jsonl,
    whole_file,
    write_json,
    write_jsonl,
    writing,
)

ROWS = [{"text": "好\n\u2028 é", "n": 1}, {"text": "", "n": 2}]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# --- whole files


@pytest.mark.parametrize(("mode", "content"), [("w", "a\r\nb\n好"), ("wb", b"\x00\xff")])
def test_a_file_holds_exactly_what_was_written(tmp_path, mode, content):
    path = tmp_path / "new" / "deep" / "file"
    with whole_file(path, mode) as file:
        file.write(content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert names(path.parent) == ["file"]


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with whole_file(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt(), OSError(errno.EIO, "broken")])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_failure_in_between_leaves_all_as_it_was(tmp_path, failure, before):
    path = tmp_path / "file"
    if before:
        path.write_text(before)
    with pytest.raises(DiskError if isinstance(failure, OSError) else type(failure)), whole_file(path) as file:  # noqa: PT012
        file.write("half")
        raise failure
    assert names(tmp_path) == (["file"] if before else [])
    assert not before or path.read_text() == before


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_is_said_and_leaves_all_as_it_was(tmp_path, monkeypatch, step):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "run.json"
    write_json(path, {"old": 1})
    monkeypatch.setattr(os, step, full)
    with pytest.raises(DiskError, match="the disk is full") as caught:
        write_json(path, {"new": 2})
    assert caught.value.where == str(path) and "run.dir" in caught.value.hint
    assert names(tmp_path) == ["run.json"]
    assert read_json(path) == {"old": 1}


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot be written") as caught:
        write_json(tmp_path / "file" / "run.json", {})
    assert caught.value.exit_code == 6


def test_other_errors_pass_a_writer_unchanged():
    with pytest.raises(ZeroDivisionError), writing(Path("x")):
        raise ZeroDivisionError


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX file modes")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_mode_that_any_new_file_has(tmp_path, mask):
    previous = os.umask(mask)
    try:
        write_json(tmp_path / "file", {})
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


# --- JSON


def test_a_document_reads_back_equal(tmp_path):
    document = {"名": ["喜", 1, 0.1, None, True], "nested": {"a": {}}}
    write_json(tmp_path / "a.json", document)
    assert read_json(tmp_path / "a.json") == document
    assert "喜".encode() in (tmp_path / "a.json").read_bytes()


@pytest.mark.parametrize("document", [math.nan, [math.inf], object(), {"a": {1, 2}}])
def test_what_json_cannot_say_is_not_written(tmp_path, document):
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "a.json", document)
    with pytest.raises((ValueError, TypeError)):
        append_jsonl(tmp_path / "a.jsonl", {"a": document})
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": "\xff"}'])
def test_a_damaged_document_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged") as caught:
        read_json(path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("read", [read_json, read_jsonl])
def test_what_cannot_be_read_is_named(tmp_path, read):
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "absent")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path)


# --- JSON lines


def test_rows_read_back_equal_however_they_were_written(tmp_path):
    write_jsonl(tmp_path / "a", ROWS)
    write_jsonl(tmp_path / "b", iter(ROWS))
    for row in ROWS:
        append_jsonl(tmp_path / "c", row)
    assert read_jsonl(tmp_path / "a") == ROWS
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


def test_a_file_cut_at_any_byte_has_the_rows_that_were_whole_and_goes_on_from_there(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write_jsonl(path, ROWS)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        whole = ROWS[: content[:end].count(b"\n")]
        assert read_jsonl(path) == whole
        append_jsonl(path, {"next": 1})
        assert read_jsonl(path) == [*whole, {"next": 1}]


def test_a_damaged_line_before_the_last_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(DataError, match="damaged") as caught:
        read_jsonl(path)
    assert caught.value.where == f"{path}:2"


# --- the directory


def test_runs_made_at_once_have_names_of_their_own(tmp_path):
    runs = [RunDir.create(tmp_path / "runs", name="demo").path for _ in range(5)]
    assert len(set(runs)) == 5
    assert all(run.is_dir() and run.is_absolute() and run.name.startswith("demo-") for run in runs)


def test_a_run_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(DiskError):
        RunDir.create(tmp_path / "runs", name="demo")


def test_only_a_run_is_opened(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no such directory"):
        RunDir.open(tmp_path / "absent")
    with pytest.raises(DataError, match=r"no run\.json"):
        RunDir.open(tmp_path)
    run = RunDir.create(tmp_path, name="r")
    run.update_record(status="running")
    monkeypatch.chdir(tmp_path)
    assert RunDir.open(run.path.name) == RunDir.open(str(run.path)) == run


def test_the_record_keeps_what_a_change_does_not_name(tmp_path):
    run = RunDir.create(tmp_path, name="r")
    run.update_record(status="running", started="x")
    run.update_record(status="finished")
    assert json.loads(run.record.read_text()) == {"schema": 1, "status": "finished", "started": "x"}


def test_every_file_of_a_run_lies_below_it_and_none_twice():
    run = RunDir(Path("/r"))
    own = [getattr(run, key) for key, value in vars(RunDir).items() if isinstance(value, property) and key != "name"]
    paths = [*own, run.split("train"), run.evaluation("test"), run.split("test")]
    assert len(own) > 10
    assert len(set(paths)) == len(paths)
    assert all(path.is_relative_to(run.path) for path in paths)


def test_times_are_in_utc():
    assert now().endswith("+00:00")
