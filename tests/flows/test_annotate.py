"""`tonetune annotate`: from rules and people to rows that `train` takes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import tiny

from tonetune.api.annotate import add_answers
from tonetune.errors import DataError

RULES = """\
functions:
  - {name: happy words, label: joy, words: [happy, glad, wonderful, laughing]}
  - {name: sad words, label: sadness, words: [sad, crying, lonely, lost]}
  - {name: anger, label: anger, regex: 'angr|furious|unfair'}
  - {name: fear, label: fear, regex: '\\b(afraid|scared|danger)\\b'}
"""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_weak_labels_can_be_trained_on(cli: Any, emotion_files: dict[str, Path], tmp_path: Path) -> None:
    rules, out = tmp_path / "rules.yaml", tmp_path / "weak.jsonl"
    rules.write_text(RULES, encoding="utf-8")
    document = cli("annotate", "weak", emotion_files["en.csv"], "--rules", rules, "--to", out, "--json").document
    assert {"coverage", "overlaps", "conflicts", "functions", "labelled", "labels", "rows", "path"} <= document.keys()
    with open(emotion_files["en.csv"], encoding="utf-8", newline="") as file:
        gold = [row["label"] for row in csv.DictReader(file)]
    rows = lines(out)
    labelled = [(row["label"], label) for row, label in zip(rows, gold, strict=True) if row["label"]]
    assert len(rows) == document["rows"] == 200 and len(labelled) == document["labelled"] > 150
    assert sum(a == b for a, b in labelled) > 0.9 * len(labelled)
    counts = cli("prepare", out, "--out", tmp_path / "prepared", "--json").document
    assert sum(counts["splits"].values()) + counts["dropped"].get("duplicate", 0) == len(labelled)
    shown = cli("annotate", "weak", emotion_files["en.csv"], "--rules", rules, "--to", out)
    assert shown.out == "" and "happy words" in shown.err and "conflicts" in shown.err


@pytest.mark.slow
def test_a_zero_shot_model_is_a_labelling_function(
    cli: Any, emotion_files: dict[str, Path], tiny_gemma: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"{RULES}  - {{name: model, zero_shot: {tiny_gemma}, confidence: 0.3}}\n", encoding="utf-8")
    flags = ["--rules", rules, "--to", tmp_path / "weak.jsonl", "--set", "model.load_gate=off", "--json"]
    document = cli("annotate", "weak", emotion_files["en.csv"], *flags).document
    model = document["functions"][-1]
    assert model["name"] == "model" and len(model["labels"]) == 4 and model["coverage"] > 0.2
    rules.write_text("functions: [{name: a, labell: x}]", encoding="utf-8")
    error = cli("annotate", "weak", emotion_files["en.csv"], *flags).error(code=2)
    assert "labell" in error["what"]
    rules.unlink()
    assert "no such file" in cli("annotate", "weak", emotion_files["en.csv"], *flags).error(code=2)["what"]


def test_a_place_that_cannot_take_the_rows_is_refused_before_the_work(cli: Any, tmp_path: Path) -> None:
    for verb in (["weak", "x.csv", "--rules", "r.yaml"], ["next", "run", "x.csv"], ["agree", "x.csv"]):
        error = cli("annotate", *verb, "--to", tmp_path / "out.xlsx", "--json").error(code=2)
        assert ".jsonl" in error["what"] and "out.xlsx" in error["where"]


def test_next_asks_for_new_texts_only(cli: Any, run: Path, emotion_files: dict[str, Path], tmp_path: Path) -> None:
    pool = tiny.write_rows(tmp_path / "pool.csv", tiny.emotion_rows("en", 120, seed=7))
    first, second = tmp_path / "first.json", tmp_path / "second.jsonl"
    document = cli("annotate", "next", run, pool, "--to", first, "--count", 15, "--json").document
    assert document == {"rows": 15, "path": str(first)}
    flags = ["--asked", first, "--count", 15, "--strategy", "entropy", "--json"]
    cli("annotate", "next", run, pool, emotion_files["en.csv"], "--to", second, *flags)
    asked = [task["data"]["text"] for task in json.loads(first.read_text(encoding="utf-8"))]
    asked += [row["text"] for row in lines(second)]
    trained = [row["text"] for name in ("train", "validation", "test") for row in lines(run / f"splits/{name}.jsonl")]
    assert len(set(asked)) == 30 and not set(asked) & set(trained)
    error = cli("annotate", "next", run, pool, "--to", first, "--strategy", "best", "--json").error(code=2)
    assert "entropy, margin, diverse, random" in error["what"]
    everything = cli("annotate", "next", run, emotion_files["en.csv"], "--to", first, "--json").error(code=3)
    assert "asked before" in everything["what"]


def test_agreement_and_the_merged_rows(cli: Any, tmp_path: Path) -> None:
    rows = tiny.emotion_rows("en", 40)
    other = [(text, label if i % 4 else "fear") for i, (text, label) in enumerate(rows)]
    ann, bob = tiny.write_rows(tmp_path / "ann.csv", rows), tiny.write_rows(tmp_path / "bob.jsonl", other)
    decided = tiny.write_rows(tmp_path / "judge.csv", rows[:8])
    flags = ["--adjudicated", decided, "--to", tmp_path / "gold.jsonl"]
    document = cli("annotate", "agree", ann, bob, *flags, "--json").document
    disagreed = sum(a != b for a, b in zip(rows, other, strict=True))
    assert len(document["disagreements"]) == disagreed and 0 < document["kappa"] < 1 and 0 < document["alpha"] < 1
    gold = {row["text"]: row["label"] for row in lines(tmp_path / "gold.jsonl")}
    assert all(gold[text] == label for text, label in rows[:8])
    assert len(gold) == document["merged"] == document["rows"] and document["left_open"] == 40 - len(gold)
    shown = cli("annotate", "agree", ann, bob)
    assert "Krippendorff" in shown.err and "ann and bob" in " ".join(shown.err.split()) and shown.out == ""
    assert "two annotators" in cli("annotate", "agree", ann, "--json").error(code=3)["what"]


@pytest.mark.slow
def test_the_loop_trains_asks_and_takes_answers(cli: Any, quick: list[str], tmp_path: Path) -> None:
    rows = tiny.emotion_rows("en", 200, seed=11)
    gold = dict(rows)
    pool = tiny.write_rows(tmp_path / "pool.csv", rows[80:])
    seed = tiny.write_rows(tmp_path / "seed.csv", rows[:80])
    directory = tmp_path / "loop"
    flags = [directory, "--pool", pool, "--count", 20, "--json", "--set", f"model.base={quick[1]}", *quick[2:]]
    assert "labelled rows to begin with" in cli("annotate", "loop", *flags).error(code=2)["what"]
    first = cli("annotate", "loop", *flags, "--answers", seed).document
    assert (first["round"], first["labelled"], first["rows"]) == (1, 80, 20)
    asked = lines(directory / "questions-1.jsonl")
    answers = tmp_path / "answers.jsonl"
    answered = [{**row, "label": [gold[row["text"]]]} for row in asked[:15]]
    answers.write_text("\n".join(map(json.dumps, answered)), encoding="utf-8")
    second = cli("annotate", "loop", *flags, "--answers", answers).document
    assert (second["round"], second["labelled"]) == (2, 95)
    again = {row["text"] for row in lines(directory / "questions-2.jsonl")}
    assert len(again) == 20 and not again & {row["text"] for row in asked}
    assert Path(second["run"]).parent == directory / "runs" and 0 <= second["tuned"]["accuracy"] <= 1
    assert len(json.loads((directory / "loop.json").read_text(encoding="utf-8"))["rounds"]) == 2


@pytest.mark.slow
def test_the_loop_takes_turns_in_their_columns(cli: Any, quick: list[str], tmp_path: Path) -> None:
    def chat(name: str, rows: list[tuple[str, str]], *columns: str) -> Path:
        with open(tmp_path / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *((f"hello {i}", *row) for i, row in enumerate(rows))])
        return tmp_path / name

    rows = tiny.emotion_rows("en", 120, seed=3)
    seed = chat("seed.csv", rows[:80], "first", "last", "mood")
    pool = chat("pool.csv", rows[70:], "first", "last", "guess")
    directory = tmp_path / "loop"
    turns = ["--text", "first", "--text", "last", "--label", "mood"]
    flags = [directory, "--pool", pool, "--count", 5, "--json", "--set", f"model.base={quick[1]}", *quick[2:]]
    done = cli("annotate", "loop", *flags, *turns, "--answers", seed).document
    assert (done["round"], done["labelled"], done["rows"]) == (1, 80, 5)
    assert lines(directory / "labelled-1.jsonl")[0] == {
        "origin": "seed.csv:2", "first": "hello 0", "last": rows[0][0], "mood": rows[0][1]
    }  # fmt: skip
    asked = lines(directory / "questions-1.jsonl")
    assert all(row["text"].split("\n")[0].startswith("hello ") and row["text"].count("\n") == 1 for row in asked)
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join(json.dumps({**row, "label": ["joy"]}) for row in asked), encoding="utf-8")
    names, written = ("first", "last"), tmp_path / "labelled-2.jsonl"
    found = add_answers(written, [directory / "labelled-1.jsonl"], [answers], text=names, label="mood")
    assert found == (names, "mood", 85)
    first, last = asked[0]["text"].split("\n")
    assert {"origin": asked[0]["origin"], "first": first, "last": last, "mood": "joy"} in lines(written)
    answers.write_text(json.dumps({"text": "a lone turn", "label": ["joy"]}), encoding="utf-8")
    with pytest.raises(DataError, match="text of 2 turns"):
        add_answers(written, [], [answers], text=names, label="mood")


def test_what_was_asked_needs_no_labels(cli: Any, run: Path, tmp_path: Path) -> None:
    rows = tiny.emotion_rows("en", 30, seed=8)
    pool = tiny.write_rows(tmp_path / "pool.csv", rows)
    (tmp_path / "before.csv").write_text("text\n" + "\n".join(text for text, _ in rows[:25]), encoding="utf-8")
    flags = ["--asked", tmp_path / "before.csv", "--to", tmp_path / "ask.jsonl", "--json"]
    assert cli("annotate", "next", run, pool, *flags).document["rows"] == 5


def test_doubtful_labels_of_files_and_of_a_run(
    cli: Any, emotion_files: dict[str, Path], run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cleanlab", reason="needs the extra noise")
    with open(emotion_files["en.csv"], encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    noisy = [(text, "joy" if i % 13 == 0 else label) for i, (text, label) in enumerate(rows)]
    wrong = {f"noisy.csv:{i + 2}" for i, (a, b) in enumerate(zip(rows, noisy, strict=True)) if a != b}
    path = tiny.write_rows(tmp_path / "noisy.csv", noisy)
    out = tmp_path / "doubts.jsonl"
    assert len(wrong) > 10
    document = cli("annotate", "noise", path, "--to", out, "--json").document
    found = lines(out)
    assert document["rows"] == document["doubtful"] == len(found) and document["texts"] == 200
    assert list(found[0]) == ["origin", "text", "label", "suggested", "score"]
    top = found[:5]
    assert len({row["origin"] for row in top} & wrong) >= 4
    shown = cli("annotate", "noise", run, "--to", tmp_path / "doubts.csv")
    assert shown.code == 0 and "doubtful" in shown.err
    with open(tmp_path / "doubts.csv", encoding="utf-8", newline="") as file:
        held_out = {row["origin"] for row in csv.DictReader(file)}
    kept = {row["origin"] for split in ("validation", "test") for row in lines(run / f"splits/{split}.jsonl")}
    assert held_out <= kept
    assert "its rows" in cli("annotate", "noise", run, "--to", out, "--text", "x", "--json").error(code=2)["what"]


def test_noise_in_rows_of_several_labels_names_the_file_and_what_to_do(cli: Any, tmp_path: Path) -> None:
    texts = [
        f"the {a} {b} was {c}" for a in ("film", "train", "city") for b in ("road", "house") for c in ("sad", "late")
    ]
    path = tiny.write_rows(
        tmp_path / "several.csv", [(t, ("joy", "anger", "joy, anger")[i % 3]) for i, t in enumerate(texts)]
    )
    error = cli("annotate", "noise", path, "--to", tmp_path / "doubts.csv", "--json").error(code=3)
    assert error["where"] == str(path) and "one label each" in error["hint"]
