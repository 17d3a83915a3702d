"""What the source must not hold, what files for others must not hold, and the page that says so."""

import ast
import pickletools
import re
from pathlib import Path

from pickles import pickles

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
DEFENCES = ROOT / "docs" / "security.md"

UNPICKLES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve"}
EVALUATES = {"eval", "exec", "compile", "__import__"}


def called(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def faults(source: str) -> list[str]:
    """What a module does that runs what it reads."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [name for name in names if name.split(".")[0] in UNPICKLES]
    for name, call in called(tree):
        arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        if name in EVALUATES or name.endswith(("torch.load", "np.load", "numpy.load", "yaml.unsafe_load")):
            found.append(name)
        if arguments.get("trust_remote_code", "False") != "False" or arguments.get("allow_pickle", "False") != "False":
            found.append(f"{name}: trust")
        if arguments.get("shell", "False") != "False" or name in ("os.system", "os.popen"):
            found.append(f"{name}: shell")
    return found


def test_there_is_source_and_a_fault_in_it_is_found():
    assert len(SOURCES) > 100
    for fault in ("import pickle", "from joblib import load", "torch.load(x)", "f(trust_remote_code=True)", "eval(x)"):
        assert faults(fault)
    for fault in ("np.load(x, allow_pickle=True)", "subprocess.run(x, shell=True)", "os.system(x)"):
        assert faults(fault)


def test_no_module_runs_what_it_reads():
    assert {str(path): found for path in SOURCES if (found := faults(path.read_text(encoding="utf-8")))} == {}


def test_whatever_transformers_reads_is_told_to_trust_no_code():
    for path in SOURCES:
        for name, call in called(ast.parse(path.read_text(encoding="utf-8"))):
            if re.fullmatch(r"(.*\.)?Auto\w+\.from_pretrained", name):
                assert "trust_remote_code" in {keyword.arg for keyword in call.keywords}, path


def test_a_pickle_is_found(tmp_path):
    import torch

    torch.save({"a": torch.zeros(1)}, tmp_path / "state")
    (tmp_path / "old").write_bytes(b"\x80\x04K\x07.")
    pickletools.genops((tmp_path / "old").read_bytes())
    assert pickles(tmp_path) == ["old", "state"]


def test_the_page_of_defences_names_tests_that_exist():
    text = DEFENCES.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(named) > 30
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
