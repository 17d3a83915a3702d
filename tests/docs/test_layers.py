"""The layer table of docs/architecture.md holds in the import statements of the code."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tonetune"
MODULES = sorted(SOURCE.rglob("*.py"))
LIGHT = [SOURCE / "data" / "template.py", SOURCE / "data" / "tokens.py"]


def layer_table() -> dict[str, int]:
    """Layer of each part, as the page says."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return {part.strip("`"): int(row[0]) for row in rows if row[0].isdigit() for part in row[1].split()}


LAYERS = layer_table()


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports, anywhere in it; relative imports keep their dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def imported_by(path: Path) -> list[str]:
    return list(imported(ast.parse(path.read_text(encoding="utf-8"))))


def faults(part: str, names: list[str]) -> list[str]:
    """Those of the imported names that `part` may not import."""
    wrong = [name for name in names if name.startswith(".")]
    for name in names:
        root, *rest = name.split(".")
        if root == "tonetune" and rest and rest[0] in LAYERS and rest[0] != part and LAYERS[rest[0]] >= LAYERS[part]:
            wrong.append(name)
    return wrong


def test_there_is_code_and_a_table():
    assert len(MODULES) > 20
    assert set(LAYERS.values()) == set(range(10))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    assert part_of(path) in LAYERS, f"{part_of(path)} is missing in the table of docs/architecture.md"
    assert faults(part_of(path), imported_by(path)) == []


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.name)
def test_template_and_tokens_need_no_torch(path):
    allowed = {
        "tokenizers",
        "numpy",
        "tonetune.errors",
        "tonetune.documents",
        "tonetune.data.template",
    } | sys.stdlib_module_names
    for name in imported_by(path):
        assert any(name == module or name.startswith(f"{module}.") for module in allowed), name


def test_an_import_that_points_up_or_aside_is_found():
    code = "from tonetune import errors\ndef f():\n    from tonetune.api import train\n    import tonetune.data.rows\n"
    names = list(imported(ast.parse(code)))
    assert faults("device", names) == ["tonetune.api.train", "tonetune.data.rows"]
    assert faults("cli", names) == []
    assert faults("errors", list(imported(ast.parse("from . import config")))) == ["..config"]
