"""scripts/venv keeps a torch for a GPU, installs one elsewhere, records no failure; torch is an empty package here."""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "venv"
Make = Callable[..., subprocess.CompletedProcess[str]]


def files_of(name: str, version: str, *, hip: str | None = None, requires: str = "") -> dict[str, str]:
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    return {
        f"{name}/__init__.py": "",
        f"{name}/version.py": f"cuda = None\nhip = {hip!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }


def put_on_index(index: Path, name: str, version: str, **options: str) -> None:
    folder = index / name
    folder.mkdir(parents=True)
    file = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(folder / file, "w") as wheel:
        for path, text in files_of(name, version, **options).items():
            wheel.writestr(path, text)
    (folder / "index.html").write_text(f'<a href="{file.replace("+", "%2B")}">{file}</a>')


@pytest.fixture
def indexes(tmp_path: Path) -> tuple[Path, Path]:
    """A plain index, which also has a package that needs torch, and one of builds for ROCm."""
    plain, rocm = tmp_path / "plain", tmp_path / "rocm"
    put_on_index(plain, "torch", "2.13.0")
    put_on_index(plain, "needstorch", "1.0", requires="torch>=2.8")
    put_on_index(rocm, "torch", "2.9.1+rocm6.4", hip="6.4")
    return plain, rocm


@pytest.fixture
def caller(tmp_path: Path) -> Path:
    """A Python without pip and torch."""
    venv.create(tmp_path / "caller", with_pip=False)
    return tmp_path / "caller" / "bin" / "python"


@pytest.fixture
def make(tmp_path: Path, indexes: tuple[Path, Path], caller: Path) -> Make:
    """Calls the script, or a Python with other arguments, with nothing but the plain index in reach."""
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": indexes[0].as_uri()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}

    def run(*words: object, python: Path = caller) -> subprocess.CompletedProcess[str]:
        command = [python, *(words if words[0] == "-m" else (SCRIPT, *words))]
        return subprocess.run(command, env=environment | settings, capture_output=True, text=True)

    return run


def torch_in(environment: Path) -> str:
    code = "import torch; from importlib.metadata import version; print(version('torch'))"
    return subprocess.run([environment / "bin/python", "-c", code], capture_output=True, text=True).stdout.strip()


def constraint(environment: Path) -> str:
    return (environment / "torch.txt").read_text().splitlines()[-1]


@pytest.mark.slow
def test_the_pinned_torch_is_installed_once_and_another_when_asked_for(make, tmp_path, indexes):
    environment = tmp_path / "environment"
    assert make(environment).returncode == 0
    assert (torch_in(environment), constraint(environment)) == ("2.13.0", "torch==2.13.0")

    (environment / "demo.stamp").touch()
    written = (environment / "torch.txt").stat().st_mtime_ns
    assert make(environment).returncode == make(environment, "--torch", "torch==2.13.0").returncode == 0
    assert (environment / "torch.txt").stat().st_mtime_ns == written

    rocm = ("--torch", "torch==2.9.1", "--index", indexes[1].as_uri())
    assert make(environment, *rocm).returncode == 0
    assert (torch_in(environment), constraint(environment)) == ("2.9.1+rocm6.4", "torch==2.9.1+rocm6.4")
    assert not (environment / "demo.stamp").exists(), "what was installed beside the other torch is gone with it"
    written = (environment / "torch.txt").stat().st_mtime_ns
    assert make(environment, *rocm).returncode == make(environment).returncode == 0
    assert (environment / "torch.txt").stat().st_mtime_ns == written, "the choice stays"


@pytest.mark.slow
def test_a_failed_install_leaves_no_record(make, tmp_path):
    environment = tmp_path / "environment"
    result = make(environment, "--torch", "torch==1.0")
    assert result.returncode == 1
    assert "is not ready" in result.stderr and "Traceback" not in result.stderr
    assert not (environment / "torch.txt").exists()
    assert make(environment).returncode == 0
    assert torch_in(environment) == "2.13.0"


@pytest.mark.slow
def test_a_torch_for_a_gpu_is_used_and_never_replaced(make, tmp_path, caller):
    site = next((tmp_path / "caller" / "lib").glob("python*")) / "site-packages"
    for path, text in files_of("torch", "2.9.1+rocm6.4", hip="6.4.43484").items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text)
    environment = tmp_path / "environment"
    result = make(environment, "--torch", "torch==2.13.0")
    assert result.returncode == 0 and "2.9.1+rocm6.4" in result.stdout
    assert (torch_in(environment), constraint(environment)) == ("2.9.1+rocm6.4", "torch==2.9.1+rocm6.4")

    install = ("-m", "pip", "install", "-c", environment / "torch.txt", "needstorch")
    assert make(*install, python=environment / "bin/python").returncode == 0
    assert torch_in(environment) == "2.9.1+rocm6.4"


def test_a_python_without_venv_is_told_in_one_line(monkeypatch, tmp_path):
    loader = SourceFileLoader("venv_script", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    script = module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(script)
    monkeypatch.setattr(sys, "argv", ["scripts/venv", str(tmp_path / "environment")])
    monkeypatch.setattr(script.importlib.util, "find_spec", lambda name: None)
    said = script.main()
    assert "python3-venv" in said and "\n" not in said
    assert list(tmp_path.iterdir()) == []
