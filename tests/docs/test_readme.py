"""README.md says what the program does: its Python block runs, its commands and files exist."""

import re
from pathlib import Path

import pytest
import tiny

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_python_block_runs(tiny_gemma, tmp_path, monkeypatch):
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    tiny.write_rows(tmp_path / "reviews.csv", tiny.emotion_rows("zh", 80, seed=1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tonetune.model.gguf_base.made_once", lambda name, make: tiny_gemma)
    monkeypatch.setattr("tonetune.model.loading.GATE_LOSS", float("inf"))  # random weights predict nothing
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["run"].path.parent == tmp_path / "runs"
    assert names["estimator"].classes_.tolist() == ["negative", "positive"]


def test_every_verb_in_a_prompt_exists():
    from tonetune.cli.app import app

    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"^\$ tonetune (\w+)", README, flags=re.MULTILINE))
    assert named
    assert named <= verbs


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_every_linked_file_exists(link):
    assert (ROOT / link).exists()
