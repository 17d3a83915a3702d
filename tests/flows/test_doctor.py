"""tonetune doctor as a person and a script meet it."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machines import MACHINES, host_of, machine

from tonetune.device.host import Host


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Puts the machine of a description in the place of this one."""

    def put(name: str, **changes: Any) -> None:
        host = host_of({**machine(name), **changes}, tmp_path / "root")
        monkeypatch.setattr(Host, "this", lambda: host)

    return put


def test_the_document_has_the_keys_of_the_contract(cli: Any, on: Any) -> None:
    on("mi250x")
    result = cli("doctor", "--probe", "none", "--json")
    document = result.document
    assert result.code == 0 and result.err == ""
    assert len(document["devices"]) == 5
    assert all(set(device) >= {"name", "arch", "memory_gib"} for device in document["devices"])
    assert document["torch"]["version"] == "2.9.1+rocm6.4" and document["torch"]["backend"] == "rocm"
    assert document["probes"] == [] and document["verdict"] == "ready"


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_only_a_machine_that_cannot_train_ends_with_4(cli: Any, on: Any, path: Path) -> None:
    on(path.stem)
    verdict = machine(path.stem)["expect"]["verdict"]
    for flags in (["--json"], ["-q"]):
        result = cli("doctor", "--probe", "none", *flags)
        assert result.code == (4 if verdict == "unable" else 0)
        assert result.err == "" and (result.out == "") == (flags == ["-q"])


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_person_reads_it_on_80_columns(cli: Any, on: Any, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    on(path.stem)
    expected = machine(path.stem)["expect"]
    result = cli("doctor", "--probe", "none")
    lines = result.err.splitlines()
    assert result.out == "" and max(map(len, lines)) <= 80
    said = " ".join(result.err.split())
    assert f"{expected['verdict']}: {' '.join(expected['summary'].split())}" in said
    assert all(row["id"] in said for row in expected["advice"])


def test_a_line_to_run_can_be_copied(cli: Any, on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    on("mi300x_cuda")
    found = re.search(
        r"^ +(pip install .*) \\\n +(--index-url \S+)$", cli("doctor", "--probe", "none").err, re.MULTILINE
    )
    assert found and f"{found[1]} {found[2]}" == machine("mi300x_cuda")["expect"]["advice"][0]["command"]


def test_what_a_machine_says_of_itself_cannot_act_on_the_terminal(cli: Any, on: Any) -> None:
    lines = '{"version": "2.13.0", "hip": null, "cuda": null}\n{"error": "\\u001b[2Jgone [red]x[/red]"}\n'
    on("cpu", torch={"out": lines})
    result = cli("doctor", "--probe", "none")
    assert result.code == 4 and "\x1b" not in result.err and "[U+001B][2Jgone [red]x[/red]" in result.err


def test_the_report_is_a_file_without_paths(cli: Any, on: Any, tmp_path: Path) -> None:
    on("mi300x_cuda", environ={"HIP_PATH": "/opt/secret/place"})
    result = cli("doctor", "--probe", "none", "--report", tmp_path / "report.json")
    assert result.code == 0 and "report.json" in "".join(result.err.split())
    text = (tmp_path / "report.json").read_text(encoding="utf-8")
    report = json.loads(text)
    assert report["verdict"] == "limited" and "secret" not in text and str(tmp_path) not in text
    assert "https://download.pytorch.org/whl/rocm7.2" in report["advice"][0]["command"]


def test_a_report_that_cannot_be_written_is_an_error_of_the_disk(cli: Any, on: Any, tmp_path: Path) -> None:
    on("cpu")
    (tmp_path / "file").touch()
    result = cli("doctor", "--probe", "none", "--report", tmp_path / "file" / "report.json", "--json")
    assert result.error(code=6)["where"].endswith("report.json")


def test_an_unknown_selection_is_wrong_usage(cli: Any) -> None:
    assert "quick" in cli("doctor", "--probe", "some", "--json").error(code=2)["what"]


@pytest.mark.slow
def test_a_torch_that_kills_whoever_imports_it_is_diagnosed(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import os; os.abort()")
    (tmp_path / "torch" / "version.py").write_text("__version__, hip, cuda = '2.9.1+rocm6.4', '6.4', None")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    child = program("doctor", "--json")
    out, err = child.communicate(timeout=120)
    document = json.loads(out)
    assert child.returncode == 4 and "error" not in err and "Traceback" not in err
    assert (document["verdict"], document["torch"]["backend"]) == ("unable", "rocm")
    assert [row["id"] for row in document["advice"] if row["verdict"] == "unable"] == ["torch-broken"]


@pytest.mark.slow
def test_this_machine_is_looked_at_in_seconds(program: Any) -> None:
    began_s = time.perf_counter()
    child = program("doctor", "--probe", "none", "--json")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert json.loads(out)["torch"]["status"] == "works"
    assert time.perf_counter() - began_s < 60  # seconds where nothing else runs
