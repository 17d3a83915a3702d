"""Texts of several columns, from the file to predictions: each turn in its place in the prompt."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import tiny

from tonetune.config import load_config

COLUMNS = ["first", "reply", "last"]
TURNS = [part for name in COLUMNS for part in ("--text", name)]


def chat(path: Path, num_rows: int, *, seed: int = 0) -> Path:
    """Three turns a row, of which the last has the words of the label."""
    rows = tiny.emotion_rows("en", num_rows, seed=seed)
    turns = ((i, f"hello to everybody, this is number {i}", "so\nwhat?", *row) for i, row in enumerate(rows))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", *COLUMNS, "label"), *turns])
    return path


@pytest.fixture(scope="module")
def trained(cli: Any, quick: list[str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("turns")
    data = chat(root / "chat.csv", 160)
    result = cli("train", "--data", data, *TURNS, *quick, "--set", f"run.dir={root}", "--json")
    assert result.code == 0, result.err
    return Path(result.document["run"]), data


def test_a_file_of_turns_is_a_question_until_they_are_named(cli: Any, tmp_path: Path) -> None:
    data = chat(tmp_path / "chat.csv", 40)
    result = cli("inspect", data, "--to", tmp_path / "rows.jsonl", "--json")
    assert result.code == 3
    assert {c["column"] for c in result.document["candidates"] if c["role"] == "text"} == {"first", "last"}
    assert not (tmp_path / "rows.jsonl").exists()
    document = cli("inspect", data, *TURNS, "--to", tmp_path / "rows.jsonl", "--json").document
    assert document["text_column"] == COLUMNS and "candidates" not in document
    row = json.loads((tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (row["turn1"], row["turn2"]) == ("hello to everybody, this is number 0", "so what?")


def test_training_keeps_turns_apart(trained: Any) -> None:
    run, _ = trained
    config = load_config(run / "config.yaml")
    assert config.data.text == tuple(COLUMNS)
    assert config.prompt.template == "{turn1}\n{turn2}\n{turn3}\nEmotion:"
    row = json.loads((run / "eval/test/predictions.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert row["text"].count("\n") == 2


def test_other_files_are_read_by_the_columns_of_the_run(cli: Any, trained: Any, tmp_path: Path) -> None:
    run, _ = trained
    new = chat(tmp_path / "new.csv", 40, seed=1)
    shown = [json.loads(line) for line in cli("predict", run, new, "--keep", "id").out.splitlines()]
    assert [row["id"] for row in shown] == [str(i) for i in range(40)]
    assert all(row["label"] in tiny.CUES["en"] for row in shown)
    with new.open(encoding="utf-8", newline="") as file:
        lines = ["\n".join(" ".join(row[name].split()) for name in COLUMNS) for row in csv.DictReader(file)]
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in lines)
    by_line = [json.loads(line) for line in cli("predict", run, "-", stdin=stdin).out.splitlines()]
    assert [row["scores"] for row in by_line] == [row["scores"] for row in shown]
    report = cli("evaluate", run, "--data", new, "--label", "label", "--json").document
    gold = [label for _, label in tiny.emotion_rows("en", 40, seed=1)]
    right = sum(row["label"] == label for row, label in zip(shown, gold, strict=True))
    assert report["tuned"]["accuracy"] == pytest.approx(right / 40)


def test_too_few_turns_are_refused(cli: Any, trained: Any) -> None:
    run, data = trained
    error = cli("predict", run, data, "--text", "last", "--json").error(code=2)
    assert "3 columns" in error["what"]
    error = cli("predict", run / "adapter", data, "--json").error(code=2)
    assert "--text" in error["hint"] or "--text" in error["where"]
    (row,) = [json.loads(line) for line in cli("predict", run, "-i", "only one turn").out.splitlines()]
    assert row["label"] is None and "3 turns" in row["error"]


def test_a_template_of_turns_takes_every_column_once(cli: Any, quick: list[str], tmp_path: Path) -> None:
    data = chat(tmp_path / "chat.csv", 40)
    for template in ("{text} Emotion:", "{turn1} {turn2} Emotion:", "{turn2} {turn1} {turn3} Emotion:"):
        flags = [*TURNS, *quick, "--set", f"prompt.template={json.dumps(template)}", "--set", f"run.dir={tmp_path}"]
        error = cli("train", "--data", data, *flags, "--json").error(code=2)
        assert "{turn" in error["what"] + str(error["hint"])


def test_the_card_shows_how_turns_are_given(trained: Any) -> None:
    run, _ = trained
    card = (run / "README.md").read_text(encoding="utf-8")
    assert 'classifier.predict("a text\\na text\\na text")' in card
    assert "no other program" in card and "PeftModel" not in card


@pytest.mark.slow
def test_turns_are_exported(cli: Any, trained: Any, tmp_path: Path) -> None:
    run, data = trained
    assert cli("export", run, "--to", "merged", "--out", tmp_path / "bundle", "--force", "--json").code == 0
    rows = [json.loads(line) for line in cli("predict", tmp_path / "bundle", data, *TURNS).out.splitlines()]
    own = [json.loads(line) for line in cli("predict", run, data).out.splitlines()]
    assert [row["label"] for row in rows] == [row["label"] for row in own]


@pytest.mark.slow
def test_real_chats_train(cli: Any, quick: list[str], shared_data: Path, tmp_path: Path) -> None:
    flags = ["--text", "turn1", "--text", "turn2", "--text", "turn3", *quick, "--set", "train.epochs=0.05"]
    data = shared_data / "en_emocontext_chat" / "dev.csv"
    result = cli("train", "--data", data, *flags, "--set", f"run.dir={tmp_path}", "--json")
    assert result.code == 0, result.err
    rows = (Path(result.document["run"]) / "splits/train.jsonl").read_text(encoding="utf-8").splitlines()
    with data.open(encoding="utf-8", newline="") as file:
        written = {tuple(" ".join(row[f"turn{i}"].split()) for i in (1, 2, 3)) for row in csv.DictReader(file)}
    assert all(tuple(json.loads(row)[f"turn{i}"] for i in (1, 2, 3)) in written for row in rows[:20])
