"""Programs run with a time limit and are ended whole; files that cannot be read are None."""

import contextlib
import dataclasses
import sys
import time

import psutil
import pytest

from tonetune.device.host import Ended, Host, device_variables, run_program


def python(code: str, limit_s: float = 20.0) -> Ended:
    return run_program((sys.executable, "-c", code), limit_s)


def test_what_a_program_wrote_and_its_code_come_back():
    ended = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert ended == Ended(3, "out\n", "err\n")


def test_bytes_that_are_no_text_are_replaced():
    assert python(r"import sys; sys.stdout.buffer.write(b'a\xff\n')").out == "a�\n"


def test_a_program_that_is_not_there_is_no_error():
    assert run_program(("no-such-program-anywhere",), 1.0) == Ended(None)


def test_a_signal_is_a_negative_code():
    assert python("import os; os.kill(os.getpid(), 6)").code == -6


def test_a_program_that_hangs_is_ended_with_its_children_and_what_it_said_is_kept():
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    began_s = time.perf_counter()
    ended = python(code, limit_s=1.0)
    assert ended.timed_out and ended.code is None
    assert time.perf_counter() - began_s < 10
    with contextlib.suppress(psutil.NoSuchProcess):
        child = psutil.Process(int(ended.out))
        deadline_s = time.perf_counter() + 10  # a killed process takes a moment to end
        while child.status() != psutil.STATUS_ZOMBIE:
            assert time.perf_counter() < deadline_s
            time.sleep(0.01)


def test_a_program_reads_nothing_from_us():
    assert python("import sys; print(repr(sys.stdin.read()))").out == "''\n"


@pytest.fixture
def host(tmp_path):
    return dataclasses.replace(Host.this(), root=tmp_path)


def test_a_file_is_read_below_the_root(host, tmp_path):
    (tmp_path / "a").write_bytes(b" \xff7 \n")
    assert host.text("a") == "�7"
    assert host.text("b") is None and host.text("a/b") is None and host.text("") is None


def test_names_that_are_numbers_come_in_their_order(host, tmp_path):
    for name in ("10", "2", "b", "a", "1"):
        (tmp_path / name).touch()
    assert host.entries("") == ["1", "2", "10", "a", "b"]
    assert host.entries("none") == []


def test_a_device_file_is_open_denied_or_absent(host, tmp_path):
    def refuse(path):
        raise PermissionError(path)

    (tmp_path / "kfd").touch()
    assert host.access("kfd") == "open"
    assert host.access("other") == "absent"
    assert dataclasses.replace(host, open_device=refuse).access("kfd") == "denied"


def test_variables_of_the_device_are_kept_and_secrets_are_not():
    environ = {"HIP_VISIBLE_DEVICES": "1", "OMP_NUM_THREADS": "2", "HF_TOKEN": "s", "PATH": "p", "LD_LIBRARY_PATH": "l"}
    environ |= {"HF_HUB_TOKEN": "s", "NCCL_SECRET": "s"}
    assert set(device_variables(environ)) == {"HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS", "LD_LIBRARY_PATH"}
