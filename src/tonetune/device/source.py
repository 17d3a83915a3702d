"""Which code a result came from: a hash of a module's source and of all modules of the same package that it imports."""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
ROOT = Path(__file__).parents[1]


@functools.cache
def source_hash(module: str) -> str:
    """16 hex digits that change with the code of a module or of anything of ours that it imports, however deep."""
    files: dict[str, Path] = {}
    ahead = [module]
    while ahead:
        name = ahead.pop()
        path = _file(name)
        if path is not None and name not in files:
            files[name] = path
            ahead += _imports(path)
    texts = [f"{name}\n{path.read_text(encoding='utf-8')}" for name, path in sorted(files.items())]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _file(module: str) -> Path | None:
    """The source of a module of ours, by its place, without importing it; None for a name that is no module."""
    package, *parts = module.split(".")
    if package != PACKAGE:
        spec = importlib.util.find_spec(module)
        return Path(spec.origin) if spec and spec.origin else None
    place = ROOT.joinpath(*parts)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if parts and path.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """Names of ours that a file imports: the modules, and what may be a module in them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
