"""tonetune plan: one document for scripts, a table for people, errors as everywhere."""

from pathlib import Path
from typing import Any


def test_scripts_get_a_document_and_people_a_table(cli: Any, tiny_gemma: Path, emotion_files: dict[str, Path]) -> None:
    command = ["plan", "--model", tiny_gemma, "--data", emotion_files["en.csv"], "--set", "model.load_gate=off"]
    document = cli(*command, "--json").document
    assert document["parameters"]["total"] > document["parameters"]["trainable"] > document["parameters"]["head"] > 0
    shown = cli(*command)
    assert shown.code == 0 and shown.out == ""
    assert f"{document['parameters']['total']:,}, and {document['parameters']['trainable']:,} to train" in shown.err
    assert "activations" in shown.err and "micro-batch" in shown.err
    assert cli(*command, "-q").err == ""


def test_a_model_that_is_not_there_is_an_error(cli: Any, tmp_path: Path) -> None:
    error = cli("plan", "--model", tmp_path, "--json").error(code=5)
    assert "no config.json" in error["what"]
