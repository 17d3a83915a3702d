"""Every module says in its first line what it is, and the tree of errors is drawn where they are defined."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from tonetune import errors

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tonetune"
MODULES = sorted(SOURCE.rglob("*.py"))
CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and c.__module__ == errors.__name__]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_first_line_says_what_the_module_is(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""'), "the first line is the docstring"
    first, *rest = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert first.endswith((".", ":")), "the first line is a whole sentence"
    assert not rest or not rest[0], "the first line stands alone"


def drawn_tree() -> dict[str, tuple[str | None, int]]:
    """Parent and exit code of each class, as the docstring of the errors draws them."""
    tree: dict[str, tuple[str | None, int]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([ │├└─]{4,})([A-Z]\w+) +(\d+)", line):
            column, name, code = len(found[1]), found[2], int(found[3])
            above = [(c, n) for c, n in above if c < column]
            tree[name] = (above[-1][1] if above else None, code)
            above.append((column, name))
    return tree


def test_the_drawn_tree_of_errors_is_the_real_one():
    assert len(CLASSES) > 8
    real = {c.__name__: (c.__base__.__name__ if c is not errors.TonetuneError else None, c.exit_code) for c in CLASSES}
    assert drawn_tree() == real
