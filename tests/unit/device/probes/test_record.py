"""Results are kept by what they depend on, the latest of each probe."""

import json

import pytest

from tonetune.device.kept import keep
from tonetune.device.probes.catalogue import Probe
from tonetune.device.probes.record import describe_machine, known_results, read_results, write_results
from tonetune.device.probes.result import ProbeResult

source_of = Probe.source.fget
MACHINE = {"libraries": {"torch": "2.13.0"}, "cards": ["Card gfx90a 65536 MiB"]}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))


def result(name: str, status: str = "passed") -> ProbeResult:
    return ProbeResult(name, "title", status, 0.5, 1.0, None, "detail", 0.1, {"fact": 2.0})


def test_what_is_written_is_read_and_the_latest_wins():
    assert read_results(MACHINE) == []
    write_results(MACHINE, [(result("P1"), False), (result("P2", "failed"), False)])
    write_results(MACHINE, [(result("P1", "crashed"), True)])
    assert read_results(MACHINE) == [(result("P1", "crashed"), True), (result("P2", "failed"), False)]


@pytest.mark.parametrize("change", [{"libraries": {"torch": "2.14.0"}}, {"cards": []}, {"driver": "6.10"}])
def test_another_torch_card_or_driver_has_results_of_its_own(change):
    write_results(MACHINE, [(result("P1"), False)])
    assert read_results({**MACHINE, **change}) == []


@pytest.mark.parametrize("damage", [[{}], [7], 7, [{"result": {"id": 1}, "thorough": 1}]])
def test_what_was_kept_in_another_form_is_no_result(damage):
    keep("probes", MACHINE, damage)
    assert read_results(MACHINE) == []


def test_the_machine_is_told_by_what_steers_results_and_by_no_secret(monkeypatch):
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "9.0.8")
    monkeypatch.setenv("HF_TOKEN", "secret")
    machine = describe_machine()
    assert machine["variables"]["HSA_OVERRIDE_GFX_VERSION"] == "9.0.8"
    assert {"torch", "transformers", "peft", "tokenizers"} == set(machine["libraries"])
    assert "secret" not in json.dumps(machine)
    assert machine == describe_machine()


def test_known_results_are_those_of_this_machine():
    assert known_results() == {}
    write_results(describe_machine(), [(result("P1"), False), (result("P4", "failed"), True)])
    assert known_results() == {"P1": result("P1"), "P4": result("P4", "failed")}


def test_a_probe_whose_code_has_changed_has_no_result(monkeypatch):
    """P2 and P3 stay: only the code of P1 is another."""
    write_results(MACHINE, [(result(name), True) for name in ("P1", "P2", "P3")])
    monkeypatch.setattr(Probe, "source", property(lambda probe: "new" if probe.id == "P1" else source_of(probe)))
    assert [found.id for found, _ in read_results(MACHINE)] == ["P2", "P3"]
    write_results(MACHINE, [(result("P1", "failed"), False)])
    assert [(found.id, found.status) for found, _ in read_results(MACHINE)][-1] == ("P1", "failed")


def test_what_is_no_probe_any_more_has_no_result():
    rows = [{"result": result(name).as_dict(), "thorough": True, "source": None} for name in ("P99", "P1")]
    keep("probes", MACHINE, rows)
    assert [found.id for found, _ in read_results(MACHINE)] == []
