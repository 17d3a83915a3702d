"""A probe that crashes, hangs or is killed is a result; the probes behind it still run; what passed is kept."""

import os
import time
from pathlib import Path

import pytest

from tonetune.device.probes import run
from tonetune.device.probes.catalogue import PROBES, Probe

TESTS = Path(__file__).parents[3]
NAMES = ("good", "killed", "bad", "raises", "hang", "nothing", "missing", "good")


NO_CARD = """
class cuda:
    is_available = device_count = staticmethod(lambda: 0)

class backends:
    class mps:
        is_available = staticmethod(lambda: False)
"""
"""A torch for children that starts at once and sees no card."""


@pytest.fixture
def planted(monkeypatch, tmp_path) -> Path:
    """The directory of what is kept; children find the planted faults, and a torch that starts at once."""
    (tmp_path / "torch.py").write_text(NO_CARD)
    path = [str(tmp_path), str(TESTS), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def probe(name: str, number: int = 0, *, limit_s: float = 60.0) -> Probe:
    return Probe(f"T{number}", f"a {name} one", f"planted:{name}", limit_s, f"mend {name}")


@pytest.mark.slow
def test_every_way_to_fail_is_a_result_and_the_next_probe_runs(planted):
    probes = [probe(name, i, limit_s=1.0 if name == "hang" else 60.0) for i, name in enumerate(NAMES)]
    results = run.measure(probes, thorough=False)
    status = ["passed", "crashed", "failed", "crashed", "timeout", "skipped", "skipped", "passed"]
    assert [(r.id, r.status) for r in results] == list(zip([p.id for p in probes], status, strict=True))
    first, dead, bad, raised, hung, nothing, missing, last = results
    assert dead.detail == "killed by SIGKILL: Memory access fault by GPU node-1"
    assert raised.detail == "RuntimeError: HIP error: invalid device function"
    assert hung.detail.startswith("no answer within 1 s") and 1.0 <= hung.seconds < 30
    assert nothing.detail == "there is no such part"
    assert missing.detail == "tonetune_has_no_such_module is not installed"
    assert (bad.value, bad.limit, bad.detail) == (None, 1.0, "not finite")
    assert first.facts["pid"] != last.facts["pid"], "a new child after a crash"
    assert [r.advice for r in results] == [
        None,
        *(f"mend {n}" for n in ("killed", "bad", "raises", "hang")),
        *[None] * 3,
    ]
    for result in results:
        assert set(result.as_dict()) >= {"id", "title", "status", "value", "limit", "advice", "detail", "seconds"}


@pytest.mark.slow
def test_what_passed_is_kept_and_what_did_not_is_measured_again(planted):
    def pids(*names: str, thorough: bool) -> list[float]:
        probes = [probe(name, i) for i, name in enumerate(names)]
        return [r.facts.get("pid", -1.0) for r in run.measure(probes, thorough=thorough)]

    first = pids("good", "bad", "good", thorough=False)
    assert first[0] == first[2] > 0, "the short selection shares one child"
    assert pids("good", "bad", "good", thorough=False) == first
    thorough = pids("good", "bad", "good", thorough=True)
    assert len({*first, *thorough}) == 4, "each thorough probe has a child of its own; one has no number"
    assert pids("good", "bad", "good", thorough=False) == thorough
    (file,) = (planted / "probes").iterdir()
    file.write_text("{")
    assert pids("good", "bad", "good", thorough=False) not in (first, thorough)


def test_a_child_that_cannot_start_is_tried_once(planted, monkeypatch):
    monkeypatch.setattr(run, "START_LIMIT_S", 0.0)
    monkeypatch.setattr(run.Worker, "ask", None)
    assert {r.status for r in run.measure([probe("good"), probe("bad")], thorough=False)} == {"timeout"}


def test_no_probe_is_no_child(monkeypatch):
    monkeypatch.setattr(run, "Worker", None)
    assert run.run_probes("none") == []


def test_the_end_of_the_parent_ends_the_child_and_what_it_started(planted):
    with run.Worker() as worker:
        assert worker.start() is None
        child = worker._child.pid
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.slow
def test_the_short_selection_passes_on_this_machine_within_half_a_minute(monkeypatch, tmp_path):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path))
    began_s = time.monotonic()
    results = run.run_probes("quick")
    assert [r.id for r in results] == [p.id for p in PROBES if p.quick]
    assert {r.status for r in results} == {"passed"}, [(r.id, r.detail) for r in results]
    assert all(r.value is not None and r.value <= r.limit for r in results)
    assert time.monotonic() - began_s < 30 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
