"""A hash changes with the code of a module and of what it imports of ours, and with nothing else."""

import importlib
from pathlib import Path

import pytest

from tonetune.device import source
from tonetune.device.probes.catalogue import PROBES

FILES = {
    "a.py": "from pkg.sub import b\nimport os",
    "sub/__init__.py": "",
    "sub/b.py": "def late():\n    import pkg.c",
    "c.py": "VALUE = 1",
    "other.py": "VALUE = 1",
}


@pytest.fixture
def package(monkeypatch, tmp_path) -> Path:
    """A package in the place of ours."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(source, "PACKAGE", "pkg")
    monkeypatch.setattr(source, "ROOT", tmp_path)
    return tmp_path


def fresh(module: str) -> str:
    source.source_hash.cache_clear()
    return source.source_hash(module)


@pytest.mark.parametrize(("file", "changes"), [(name, name != "other.py") for name in FILES])
def test_it_changes_with_what_is_imported_however_deep(package, file, changes):
    before = fresh("pkg.a")
    assert fresh("pkg.a") == before and len(before) == 16
    (package / file).write_text("VALUE = 2\n" + FILES[file])
    assert (fresh("pkg.a") != before) == changes


def test_a_module_that_imports_itself_and_one_of_strangers_end(package):
    (package / "c.py").write_text("from pkg import a\nfrom pkg.c import VALUE")
    assert fresh("pkg.a") != fresh("pkg.other") != fresh("json") != fresh("no_such_module")


def test_each_probe_s_own_code_and_what_it_shares_is_in_its_hash(monkeypatch):
    source.source_hash.cache_clear()
    before = {probe.id: probe.source for probe in PROBES}
    whole = Path.read_text
    for module, hit in (("gemm", {"P1", "P2", "P3", "P6", "P10"}), ("collective", {"P8"})):
        path = importlib.import_module(f"tonetune.device.probes.{module}").__file__
        changed = lambda self, *a, own=path, **k: whole(self, *a, **k) + "#" * (str(self) == own)  # noqa: E731
        monkeypatch.setattr(Path, "read_text", changed)
        source.source_hash.cache_clear()
        assert {probe.id for probe in PROBES if probe.source != before[probe.id]} == hit
    source.source_hash.cache_clear()
