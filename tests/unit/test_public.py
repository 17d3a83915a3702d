"""Laws of the public door: import and --help load nothing heavy, and the names are those promised."""

import inspect
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tonetune

HEAVY = ("torch", "transformers", "peft", "sklearn", "scipy", "matplotlib", "pydantic", "typer")
HELP_S = 0.5
PROMISED = {
    "LoraTextClassifier": "class",
    "MultiPrediction": "class",
    "Prediction": "class",
    "Run": "class",
    "TextClassifier": "class",
    "TonetuneError": "class",
    "__version__": "text",
    "demo": "function",
    "evaluate": "function",
    "load": "function",
    "train": "function",
}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", check=False)


def loaded_after(code: str) -> set[str]:
    """Top-level modules in a fresh process after `code`."""
    result = python("-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))")
    assert result.returncode == 0, result.stderr
    return {name.partition(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def test_importing_it_loads_nothing_heavy():
    loaded = loaded_after("import tonetune\ntonetune.TonetuneError, tonetune.__version__, dir(tonetune)")
    assert "tonetune" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_what_needs_torch_is_loaded_when_it_is_asked_for():
    assert "torch" in loaded_after("import tonetune\ntonetune.load")


def test_the_names_are_those_promised_and_each_is_what_it_should_be():
    kinds = {"class": inspect.isclass, "function": inspect.isfunction, "text": lambda value: isinstance(value, str)}
    assert tonetune.__all__ == sorted(PROMISED) == dir(tonetune)
    for name, kind in PROMISED.items():
        value = getattr(tonetune, name)
        assert kinds[kind](value), name
        assert kind == "text" or (value.__name__ == name and value.__doc__), name


def test_an_unknown_name_is_an_attribute_error_that_says_so():
    with pytest.raises(AttributeError, match="module 'tonetune' has no attribute 'tune'"):
        tonetune.tune  # noqa: B018  # asking for it is the test
    with pytest.raises(ImportError):
        from tonetune import tune  # noqa: F401


def test_help_loads_no_torch():
    result = python("-X", "importtime", "-m", "tonetune", "--help")
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert result.returncode == 0
    assert "typer" in loaded
    assert loaded.isdisjoint({"torch", "transformers", "peft", "sklearn", "scipy", "matplotlib"})


def test_help_answers_in_half_a_second():
    """The fastest of three: what is measured is the program, not what else the machine does."""
    laps_s = []
    for _ in range(3):
        began = time.perf_counter()
        assert python("-m", "tonetune", "--help").returncode == 0
        laps_s.append(time.perf_counter() - began)
    assert min(laps_s) < HELP_S


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("train", "--help"), ("inspect", "none.csv")])
def test_the_module_is_the_same_program_as_the_command(arguments):
    command = Path(sys.executable).with_name("tonetune")
    if not command.exists():
        pytest.skip("the command tonetune is not beside this Python")
    script, module = python(str(command), *arguments), python("-m", "tonetune", *arguments)
    assert (module.returncode, module.stderr) == (script.returncode, script.stderr)
    assert module.stdout.replace("python -m tonetune", "tonetune") == script.stdout
