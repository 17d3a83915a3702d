"""Generated pages and tables say what the code says: schema, torch builds, rules of the doctor, families of models."""

import importlib.util
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tonetune.config import RunConfig, keys_of
from tonetune.device.advice import rules
from tonetune.model.families import BY_MODEL_TYPE, RELATIVES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    loader = SourceFileLoader("docs_script", str(ROOT / "scripts" / "docs"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.path.copy(), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        loader.exec_module(module)
    finally:
        sys.path[:], sys.dont_write_bytecode = before
    return module


def test_the_committed_pages_are_current():
    result = subprocess.run([sys.executable, ROOT / "scripts" / "docs", "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_page_names_every_key_once():
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows == list(keys_of(RunConfig))


def test_a_changed_or_absent_page_is_noticed(docs, tmp_path):
    assert docs.stale(tmp_path) == list(docs.PAGES)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    assert docs.stale(tmp_path) == []
    page = tmp_path / "docs" / "config.md"
    page.write_text(page.read_text(encoding="utf-8").replace("`8`", "`9`"), encoding="utf-8")
    assert docs.stale(tmp_path) == ["docs/config.md"]


def test_the_doctor_s_page_names_every_rule_once():
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    table = page.split("<!-- rules -->")[1].split("<!-- /rules -->")[0]
    rows = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert rows == [rule.id for rule in rules()]


def test_a_changed_row_of_torch_builds_is_noticed_and_what_stands_around_it_is_kept(docs):
    present = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = f"before\n{present}after\n".replace("rocm6.4", "rocm6.5")
    assert docs.readme(changed) != changed
    assert docs.readme(f"before\n{present}after\n") == f"before\n{present}after\n"


def test_the_page_of_models_has_every_family_and_relative(docs):
    present = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for mark in ("families", "relatives"):
        assert present.count(f"<!-- {mark} -->") == present.count(f"<!-- /{mark} -->") == 1
    assert all(f"`{name}`" in present for name in [*BY_MODEL_TYPE, *RELATIVES])
    changed = present.replace("| Gemma 4 |", "| Gemma 5 |")
    assert changed != present and docs.models_page(changed) == present
