"""The doctor on machines described in files: verdict, devices and advice to the word; probes change the verdict."""

import dataclasses
import json
import random
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from machines import MACHINES, described, host_of, machine, record

from tonetune.device import doctor
from tonetune.device.advice import VERDICTS
from tonetune.device.doctor import diagnose

NEEDED = {
    *("mi250x", "mi210", "mi300x_rocm", "mi300x_cuda", "rx7900xtx", "laptop_igpu"),
    *("container_no_render_group", "h200", "h200_cudnn", "cpu"),
}


def test_the_machines_are_there_and_say_whether_they_were_recorded():
    assert {path.stem for path in MACHINES} >= NEEDED
    assert all(isinstance(described(path)["recorded"], bool) and described(path)["about"] for path in MACHINES)


def without_nothing(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_machine_gets_its_verdict_and_advice(path, tmp_path):
    description = described(path)
    document = diagnose("none", host_of(description, tmp_path)).as_dict()
    expected = description["expect"]
    assert (document["verdict"], document["summary"]) == (expected["verdict"], expected["summary"])
    assert [{key: d[key] for key in expected["devices"][0]} for d in document["devices"]] == expected["devices"]
    assert {key: document["torch"][key] for key in expected["torch"]} == expected["torch"]
    assert [without_nothing(row) for row in document["advice"]] == expected["advice"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_machine_whose_every_program_fails_is_still_described(path, tmp_path):
    """What the kernel's files say is enough for the cards and for the torch they need."""
    description = described(path)
    bare = {**description, "commands": {}, "torch": {"out": '{"found": false}\n'}, "packages": {}}
    diagnosis = diagnose("none", host_of(bare, tmp_path))
    assert diagnosis.verdict == "unable"
    (row,) = [row for row in diagnosis.advice if row["id"] == "torch-missing"]
    assert str(row["command"]).startswith('pip install "torch')
    kinds = [device["kind"] for device in diagnosis.as_dict()["devices"]]
    assert kinds == [device["kind"] for device in description["expect"]["devices"]]


def damaged(text: str, rng: random.Random) -> str:
    """The text, or a part of it, or something else."""
    start, end = sorted(rng.choices(range(len(text) + 1), k=2))
    return rng.choice([text, text, text[:end], text[start:], text[:start] + "N/A" + text[end:], "", "null", "{}"])


def test_whatever_is_cut_off_or_absent_the_doctor_ends_with_a_verdict(tmp_path):
    rng = random.Random(0)
    for attempt in range(100):
        description = described(rng.choice(MACHINES))
        for part in ("files", "commands"):
            entries = description.get(part, {}).items()
            description[part] = {key: damaged(text, rng) for key, text in entries if rng.random() < 0.9}
        lines = description["torch"]["out"].splitlines(keepends=True)
        description["torch"] |= {
            "out": "".join(lines[: rng.randint(0, len(lines))]),
            "code": rng.choice([0, 1, -9, None]),
        }
        document = diagnose("none", host_of(description, tmp_path / str(attempt))).as_dict()
        assert document["verdict"] in VERDICTS and document["summary"]
        assert json.loads(json.dumps(document, allow_nan=False)) == document


@dataclass(frozen=True)
class Result:
    """As much of a probe's result as the doctor reads."""

    id: str
    status: str
    advice: str | None = None
    title: str = "a probe"
    value: float | None = 1.0
    limit: float | None = 2.0
    detail: str = "seen"
    seconds: float = 0.1

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@pytest.fixture
def probes(monkeypatch):
    """Puts results in the place of measurements; returns the selections that were asked for."""
    asked: list[str] = []

    def give(*results: Result) -> list[str]:
        def run_probes(selection: str) -> Sequence[Result]:
            asked.append(selection)
            return list(results)

        module = types.ModuleType("tonetune.device.probes")
        module.run_probes = run_probes
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return asked

    return give


def cpu(tmp_path: Path) -> Any:
    return host_of(machine("cpu"), tmp_path)


@pytest.mark.parametrize(
    ("id", "status", "verdict"),
    [
        ("P1", "passed", "ready"),
        ("P5", "skipped", "ready"),
        ("P4", "failed", "limited"),
        ("P7", "failed", "limited"),
        ("P1", "timeout", "limited"),
        ("P10", "timeout", "limited"),
        ("P1", "failed", "unable"),
        ("P10", "crashed", "unable"),
    ],
)
def test_what_a_probe_found_changes_the_verdict(probes, tmp_path, id, status, verdict):
    asked = probes(Result("P2", "passed"), Result(id, status, advice=None if status == "passed" else "do this"))
    diagnosis = diagnose("all", cpu(tmp_path))
    assert asked == ["all"]
    assert diagnosis.verdict == verdict
    assert [row["id"] for row in diagnosis.as_dict()["probes"]] == ["P2", id]
    assert (verdict == "ready") == (diagnosis.advice == [])
    assert all(id in str(row["evidence"]) for row in diagnosis.advice)


def test_nothing_is_measured_unless_asked_for(probes, tmp_path):
    asked = probes()
    diagnose("none", cpu(tmp_path))
    assert asked == []


def test_nothing_is_measured_where_training_cannot_run(probes, tmp_path):
    asked = probes()
    assert diagnose("quick", host_of(machine("broken_torch"), tmp_path)).verdict == "unable"
    assert asked == []


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_what_stops_training_is_said_first(path, tmp_path):
    diagnosis = diagnose("none", host_of(described(path), tmp_path))
    order = [VERDICTS.index(str(row["verdict"])) for row in diagnosis.advice]
    assert order == sorted(order, reverse=True)
    assert diagnosis.verdict == VERDICTS[max(order, default=0)]


def test_the_doctor_loads_no_torch():
    code = "import sys; import tonetune.device.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_report_holds_the_document_and_the_facts_without_names(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "user_names", lambda: {"ada"})
    monkeypatch.setattr(doctor, "host_names", lambda: {"node7"})
    environ = {"HIP_PATH": "/home/ada/rocm", "HSA_OVERRIDE_GFX_VERSION": "10.3.0", "NCCL_COMM": "ada@node7"}
    diagnosis = diagnose("none", host_of({**machine("mi210_override"), "environ": environ}, tmp_path))
    report = diagnosis.report()
    assert report["verdict"] == diagnosis.verdict and report["facts"]["amd.archs"] == ["gfx90a"]
    assert report["system"]["variables"]["HIP_PATH"] == report["facts"]["env.NCCL_COMM"] == "<set>"
    assert report["system"]["variables"]["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
    text = json.dumps(report)
    assert not any(secret in text for secret in ("ada", "node7", "/home", str(tmp_path)))


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_machine_that_is_recorded_anew_is_the_same_machine(path, tmp_path):
    """What the recorder keeps is all that the doctor looks at."""
    first = host_of(described(path), tmp_path / "first")
    description = json.loads(json.dumps(record("again", first)))
    again = diagnose("none", host_of(description, tmp_path / "second")).as_dict()
    assert again == diagnose("none", first).as_dict()
    assert description["expect"]["verdict"] == again["verdict"]
