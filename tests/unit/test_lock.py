"""Laws of the lock: one process in a run at a time, and no lock outlives its process, its boot, or its damage."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from tonetune.errors import UsageError
from tonetune.lock import LOCK, Holder, has_finished, held, holder, status_of
from tonetune.rundir import RunDir, write_json


def test_a_run_has_one_process_at_a_time_and_none_afterwards(tmp_path):
    with held(tmp_path):
        found = holder(tmp_path)
        assert found is not None and found.pid == os.getpid()
        with (
            pytest.raises(UsageError, match=f"another process works in this run: {os.getpid()}") as caught,
            held(tmp_path),
        ):
            pass
        assert "wait for it" in caught.value.hint
        assert holder(tmp_path) == found  # the refused one took nothing away
    assert list(tmp_path.iterdir()) == []


def test_the_lock_goes_with_whatever_ends_the_work(tmp_path):
    with pytest.raises(KeyboardInterrupt), held(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({}, False),
        ({"started": 1.0}, True),  # another process of this number
        ({"boot": "another"}, True),
        ({"host": "elsewhere"}, False),  # which nobody can know here
        ({"host": "elsewhere", "boot": "another"}, False),
    ],
)
def test_a_process_is_known_by_its_start_its_boot_and_its_host(tmp_path, change, gone):
    other = dataclasses.replace(Holder.here(), **change)
    assert other.is_gone() is gone
    write_json(tmp_path / LOCK, dataclasses.asdict(other))
    if not gone:
        with pytest.raises(UsageError), held(tmp_path):
            pass
        return
    with held(tmp_path):
        assert holder(tmp_path) == dataclasses.replace(Holder.here(), since=holder(tmp_path).since)


def test_a_process_that_has_ended_is_gone_even_before_anybody_asked_how(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = Holder(child.pid, 0.0, Holder.here().host, Holder.here().boot, "")
    from tonetune import lock

    live = dataclasses.replace(start, started=lock._start_of(child.pid))
    assert not live.is_gone()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert live.is_gone()
    child.communicate()
    assert live.is_gone()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}'])
def test_a_lock_that_lost_its_content_holds_nobody_back(tmp_path, content):
    (tmp_path / LOCK).write_bytes(content)
    with held(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_a_run_whose_process_is_gone_is_lost_and_no_other(tmp_path):
    run = RunDir.create(tmp_path, name="r")
    run.update_record(status="running")
    with held(run.path):
        assert status_of(run) == "running"
    assert status_of(run) == "lost"
    for status in ("finished", "failed", "interrupted"):
        run.update_record(status=status)
        assert status_of(run) == status


def test_a_run_has_finished_when_its_last_file_is_written(tmp_path):
    run = RunDir.create(tmp_path, name="r")
    run.update_record(status="finished")
    run.reserve.touch()
    with held(run.path):
        assert status_of(run) == "running"
    assert status_of(run) == "lost" and not has_finished(run)
    run.reserve.unlink()
    assert status_of(run) == "finished" and has_finished(run)
