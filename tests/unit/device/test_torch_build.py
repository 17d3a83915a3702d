"""What a child says of torch, whether it ends well, fails, crashes or hangs on the way."""

import json

import pytest

from tonetune.device.host import Ended, Host
from tonetune.device.torch_build import LIMIT_S, first_line, read_build, torch_build

SEEN = {"name": "AMD Instinct MI210", "gcn": "gfx90a:sramecc+:xnack-", "capability": "90", "memory_bytes": 64 << 30}
SEEN |= {"integrated": False, "pci": "0000:83:00"}
H200 = {"name": "NVIDIA H200", "gcn": "", "capability": "90", "memory_bytes": 1 << 37, "integrated": False, "pci": None}
VERSION = {"version": "2.9.1+rocm6.4", "hip": "6.4.43484", "cuda": None}
ARCHS = {"archs": ["gfx90a", "gfx942:xnack-"], "mps": False}


def said(*steps: object, code: int | None = 0, err: str = "", timed_out: bool = False) -> Ended:
    return Ended(code, "".join(json.dumps(step) + "\n" for step in steps), err, timed_out)


WHOLE = (VERSION, {"imported": True}, ARCHS, {"devices": [SEEN, SEEN]})


def test_a_build_that_works():
    build = read_build(said(*WHOLE, {"sums": [64.0, 64.0]}))
    assert (build.status, build.version, build.backend) == ("works", "2.9.1+rocm6.4", "rocm")
    assert build.archs == ("gfx90a", "gfx942") and build.kernels == ("works", "works") and build.error is None
    assert [(c.vendor, c.arch, c.memory_mib, c.torch) for c in build.cards] == [
        ("amd", "gfx90a", 65536, "cuda:0"),
        ("amd", "gfx90a", 65536, "cuda:1"),
    ]


def test_a_compute_capability_counts_on_nvidia_only():
    """ROCm says (9, 0) of gfx90a, which is Hopper's number."""
    cards = read_build(said(*WHOLE[:3], {"devices": [SEEN, H200]})).cards
    assert [card.arch for card in cards] == ["gfx90a", "sm_90"]


@pytest.mark.parametrize(
    ("sums", "end", "kernels"),
    [
        ([64.0, 63.0], {}, ("works", "wrong")),
        (["HIP error: invalid device function", 64.0], {}, ("failed", "works")),
        ([64.0], {"code": -6, "err": "Memory access fault by GPU node-1"}, ("works", "crashed")),
        ([], {"code": -11}, ("crashed", "untried")),
        ([], {"code": None, "timed_out": True}, ("hangs", "untried")),
    ],
)
def test_each_card_has_a_result_of_its_own(sums, end, kernels):
    steps = [*WHOLE, *([{"sums": sums}] if sums else [])]
    build = read_build(said(*steps, **end))
    assert build.status == "works" and build.kernels == kernels
    assert build.error or kernels == ("works", "wrong")


@pytest.mark.parametrize(
    ("child", "status", "error"),
    [
        (said({"found": False}), "missing", None),
        (said(VERSION, {"error": "ImportError: libamdhip64.so.6"}), "broken", "ImportError: libamdhip64.so.6"),
        (said(VERSION, code=-11, err="Segmentation fault\n"), "broken", "Segmentation fault"),
        (said(VERSION, code=-4), "broken", "signal 4"),
        (said(VERSION, code=None, timed_out=True), "hangs", f"no answer within {LIMIT_S:.0f} s"),
        (Ended(1, "", "Traceback\nSyntaxError: broken\n"), "broken", "SyntaxError: broken"),
        (Ended(None), "broken", "exit code None"),
    ],
)
def test_an_import_that_fails_says_how(child, status, error):
    build = read_build(child)
    assert (build.status, build.error, build.kernels) == (status, error, ())


def test_a_version_is_known_though_the_import_fails():
    build = read_build(said(VERSION, {"error": "ImportError: x"}))
    assert (build.version, build.backend) == ("2.9.1+rocm6.4", "rocm")


def test_the_line_of_stderr_that_names_the_fault_is_the_error():
    err = "warning: x\nMemory access fault by GPU node-1 on address (nil). Reason: Unknown.\nGPU core dump failed\n"
    assert str(read_build(said(*WHOLE, code=-6, err=err)).error).startswith("Memory access fault by GPU")


def test_a_warning_tells_why_no_card_is_seen():
    build = read_build(said(*WHOLE[:3], {"warning": "the driver is too old"}, {"devices": []}))
    assert (build.status, build.kernels, build.error) == ("works", (), "the driver is too old")


@pytest.mark.parametrize("noise", ["", "MIOpen: hello\n", "[1, 2]\n3\nnull\n", "{\n", "[" * 5000 + "\n"])
def test_lines_of_others_are_passed_over(noise):
    whole = said(*WHOLE, {"sums": [64.0, 64.0]})
    assert read_build(Ended(0, noise + whole.out + noise)) == read_build(whole)


@pytest.mark.parametrize(
    ("build", "backend"),
    [
        ({"hip": "6.4"}, "rocm"),
        ({"cuda": "13.0"}, "cuda"),
        ({}, "cpu"),
    ],
)
def test_a_backend_is_what_the_build_is_for(build, backend):
    assert read_build(said({"version": "2.13.0", "hip": None, "cuda": None, **build})).backend == backend


def test_an_error_is_told_in_one_line_of_bounded_length():
    assert first_line(RuntimeError("\n\n first \nsecond")) == "first"
    assert first_line(RuntimeError("")) == "RuntimeError"
    assert len(first_line("x" * 10_000)) < 400


@pytest.mark.slow
def test_the_torch_of_this_python_is_looked_at():
    import torch

    build = torch_build(Host.this())
    assert (build.status, build.version) == ("works", torch.__version__)
    assert len(build.cards) == torch.cuda.device_count()
    assert set(build.kernels) <= {"works"}


@pytest.mark.parametrize(
    ("module", "status", "error"),
    [
        ("raise ImportError('libcudart.so.13: cannot open')", "broken", "ImportError: libcudart.so.13: cannot open"),
        ("import os; os.abort()", "broken", "signal 6"),
    ],
)
def test_a_broken_torch_breaks_nothing_here(monkeypatch, tmp_path, module, status, error):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(module)
    (package / "version.py").write_text("__version__, hip, cuda = '2.14.0', None, '13.0'")
    monkeypatch.syspath_prepend(tmp_path)
    build = torch_build(Host.this())
    assert (build.status, build.error, build.version, build.backend) == (status, error, "2.14.0", "cuda")
