"""`tonetune predict`: one row out per row in, in order, the same from every door."""

import csv
import io
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

import tonetune
from tonetune.data.readers import read_table

TEXTS = ["a happy morning and laughing", "晚饭很好，开心！", "lost and crying on the road"]


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_door_gives_the_same_rows(cli: Any, run: Path, tmp_path: Path) -> None:
    table = tiny.write_rows(tmp_path / "in.csv", [(text, "") for text in TEXTS])
    lines = tiny.write_rows(tmp_path / "in.jsonl", [(text, "") for text in TEXTS])
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    given = cli("predict", run, *(part for text in TEXTS for part in ("-i", text)))
    doors = [
        given,
        cli("predict", run, table),
        cli("predict", run, lines),
        cli("predict", run, "-", stdin=stdin),
        cli("predict", run, "-", "--lines", stdin="\r\n".join(TEXTS)),
    ]
    assert [door.code for door in doors] == [0] * 5, [door.err for door in doors]
    assert {door.out for door in doors} == {given.out}
    rows = rows_of(given.out)
    assert [row["text"] for row in rows] == TEXTS
    assert all(set(row) == {"text", "label", "confidence", "scores"} for row in rows)
    assert cli("predict", run, table, "--json").document == {"rows": rows}
    for row, prediction in zip(rows, tonetune.load(run).predict(TEXTS), strict=True):
        assert row == {"text": row["text"], **vars(prediction)}
        assert math.isclose(sum(row["scores"].values()), 1.0)


def test_a_run_and_its_adapter_are_the_same_classifier(cli: Any, run: Path) -> None:
    assert cli("predict", run, "-i", TEXTS[0]).out == cli("predict", run / "adapter", "-i", TEXTS[0]).out


def test_rows_that_cannot_be_scored_say_so_and_keep_their_place(cli: Any, run: Path) -> None:
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in ["", "a happy day", " \u200b ", None, "sad", 5])
    rows = rows_of(cli("predict", run, "-", stdin=stdin).out)
    assert [("error" in row) for row in rows] == [True, False, True, True, False, True]
    assert [row["label"] is None for row in rows] == [True, False, True, True, False, True]
    assert rows_of(cli("predict", run, "-i", "").out)[0]["error"] == "the text is empty"
    assert "found int" in rows[5]["error"]


def test_below_abstain_there_is_no_label(cli: Any, run: Path) -> None:
    flags = [part for text in TEXTS for part in ("-i", text)]
    sure = rows_of(cli("predict", run, *flags).out)
    threshold = sorted(row["confidence"] for row in sure)[1]
    rows = rows_of(cli("predict", run, *flags, "--abstain", threshold).out)
    assert [row["label"] for row in rows] == [row["label"] if row["confidence"] >= threshold else None for row in sure]
    assert [row["scores"] for row in rows] == [row["scores"] for row in sure]


def _orders(path: Path) -> Path:
    cells = [
        ("id", "text"),
        ("7", "a happy day"),
        ("8", ""),
        ("9", "=SUM(1) was sad"),
        ("=1+1", 'angry, "unfair"\nagain'),
    ]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(cells)
    return path


def test_a_csv_out_keeps_columns_order_and_is_safe_in_a_spreadsheet(cli: Any, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    result = cli("predict", run, _orders(tmp_path / "in.csv"), "--text", "text", "--keep", "id", "--to", out)
    assert result.code == 0 and result.out == "", result.err
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"), newline="")))
    labels = tonetune.load(run).labels
    assert list(rows[0]) == ["id", "text", "label", "confidence", *(f"score_{name}" for name in labels), "error"]
    assert [row["id"] for row in rows] == ["7", "8", "9", "'=1+1"]
    assert [row["text"] for row in rows] == ["a happy day", "", "'=SUM(1) was sad", 'angry, "unfair"\nagain']
    assert [bool(row["error"]) for row in rows] == [False, True, False, False]
    for row in rows:
        if not row["error"]:
            assert math.isclose(sum(float(row[f"score_{name}"]) for name in labels), 1.0)


def test_a_jsonl_out_holds_what_stdout_would(cli: Any, run: Path, tmp_path: Path) -> None:
    source, out = _orders(tmp_path / "in.csv"), tmp_path / "deep" / "out.jsonl"
    flags = [source, "--text", "text", "--keep", "id"]
    shown = cli("predict", run, *flags).out
    document = cli("predict", run, *flags, "--to", out, "--json").document
    assert document == {"rows": 4, "path": str(out)}
    assert out.read_text(encoding="utf-8") == shown
    assert [row["id"] for row in rows_of(shown)] == ["7", "8", "9", "=1+1"]


def test_keeping_a_column_named_like_a_result_is_refused(cli: Any, run: Path, emotion_files: dict[str, Path]) -> None:
    error = cli("predict", run, emotion_files["en.csv"], "--keep", "label", "--json").error(code=2)
    assert "'label'" in error["what"]


def test_a_row_with_too_many_cells_is_not_cut_in_silence(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,text\n1,a happy day\n2,a,sad day\n3,lost\n", encoding="utf-8")
    rows = rows_of(cli("predict", run, tmp_path / "in.csv", "--text", "text", "--keep", "id").out)
    assert [(row["id"], "error" in row, row["label"] is None) for row in rows] == [
        ("1", False, False),
        ("2", True, True),
        ("3", False, False),
    ]
    assert "delimiter" in rows[1]["error"]


def test_files_without_header_and_with_other_delimiters(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a happy day#1\nso sad#2\n", encoding="utf-16")
    flags = ["--no-header", "--delimiter", "#", "--encoding", "utf-16", "--text", "1", "--keep", "2"]
    rows = rows_of(cli("predict", run, tmp_path / "in.csv", *flags).out)
    assert [(row["2"], row["text"]) for row in rows] == [("1", "a happy day"), ("2", "so sad")]


def test_half_an_emoji_and_other_encodings_are_read(cli: Any, run: Path) -> None:
    (row,) = rows_of(cli("predict", run, "-", stdin='{"text": "so happy \\ud83d"}\n').out)
    assert row["text"] == "so happy \ufffd"
    (row,) = rows_of(cli("predict", run, "-", "--lines", stdin=("今天真的非常开心，" * 5).encode("gb18030")).out)
    assert row["text"].startswith("今天真的非常开心")
    (row,) = rows_of(cli("predict", run, "-", "--lines", stdin="\ufeff开心".encode()).out)
    assert row["text"] == "开心"
    (row,) = rows_of(cli("predict", run, "-i", "happy \udcff").out)
    assert row["label"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "-i"),
        (["in.csv", "-i", "x"], 2, "-i"),
        (["absent.csv"], 3, "absent.csv"),
        (["-", "--keep", "id"], 2, "--keep"),
        (["-i", "x", "--to", "out.ods"], 2, ".xlsx"),
        (["-i", "x", "--abstain", "2"], 2, "--abstain"),
        (["in.csv", "--text", "txt"], 3, "text"),
        (["in.csv", "--text", "text", "--keep", "ID"], 3, "id"),
        (["-i", "x", "--to", "in.csv/out.csv"], 6, "out.csv"),
    ],
)
def test_wrong_questions_are_answered(
    cli: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _orders(Path("in.csv"))
    error = cli("predict", run, *arguments, "--json").error(code=code)
    assert says in " ".join(str(error[key]) for key in ("what", "where", "hint"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("line", ["not json", '"a string"', '{"txt": "x"}', "[" * 100_000])
def test_a_line_that_is_no_row_is_named(cli: Any, run: Path, line: str) -> None:
    error = cli("predict", run, "-", "--json", stdin=f'{{"text": "fine"}}\n{line}\n').error(code=3)
    assert error["where"] == "standard input:2"


@pytest.mark.slow
def test_texts_are_cleaned_as_in_training(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path
) -> None:
    flags = ["--set", "train.epochs=0.2", "--set", "data.urls=remove", "--set", "data.mentions=placeholder"]
    flags += ["--set", f"run.dir={tmp_path}", "--json"]
    run = cli("train", "--data", emotion_files["en.csv"], *quick, *flags).document["run"]
    texts = ["so happy @ann http://a.b/c", "so happy @bob", "so happy @user", "so happy"]
    scores = [row["scores"] for row in cli("predict", run, *(f"-i{text}" for text in texts), "--json").document["rows"]]
    assert scores[0] == scores[1] == scores[2] != scores[3]


def test_a_changed_adapter_is_refused(cli: Any, run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "adapter"
    shutil.copytree(run / "adapter", copy)
    tensors = copy / "adapter_model.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    assert str(tensors) == cli("predict", copy, "-i", "x", "--json").error(code=5)["where"]


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_scores(program: Callable[..., Any], run: Path) -> None:
    child = program("predict", run, "-", "--lines", stdin=subprocess.PIPE)
    out, err = child.communicate("\n".join(TEXTS), timeout=120)
    assert child.returncode == 0, err
    scores = [list(row["scores"].values()) for row in rows_of(out)]
    np.testing.assert_allclose(scores, tonetune.load(run).predict_proba(TEXTS), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(program: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    data = tiny.write_rows(tmp_path / "many.csv", tiny.emotion_rows("en", 3000))
    with program("predict", run, data, "--text", "text") as child:
        assert child.stdout.readline().startswith("{")
        child.stdout.close()
        assert child.wait(timeout=120) == 0
        assert "Traceback" not in child.stderr.read()


def test_a_sheet_in_and_a_sheet_out(cli: Any, run: Path, tmp_path: Path) -> None:
    texts = ["a happy day", "=SUM(1) was sad", "lost\x0b and crying", "-1 point"]
    out, again = tmp_path / "out.csv", tmp_path / "again.xlsx"
    source = tiny.write_rows(tmp_path / "in.jsonl", [(text, "") for text in texts])
    assert cli("predict", run, source, "--to", tmp_path / "out.xlsx").code == 0
    assert cli("predict", run, source, "--to", out).code == 0
    sheet = read_table(tmp_path / "out.xlsx").rows
    assert [row["text"] for row in sheet] == ["a happy day", "=SUM(1) was sad", "lost\ufffd and crying", "-1 point"]
    for got, wanted in zip(sheet, read_table(out).rows, strict=True):
        assert got["label"] == wanted["label"]
        assert math.isclose(float(got["confidence"] or ""), float(wanted["confidence"] or ""))
    assert cli("predict", run, tmp_path / "out.xlsx", "--text", "text", "--to", again).code == 0
    assert [row["text"] for row in read_table(again).rows] == [row["text"] for row in sheet]


def test_what_does_not_fit_a_sheet_is_refused_before_it_is_scored(cli: Any, run: Path, tmp_path: Path) -> None:
    source = tiny.write_rows(tmp_path / "in.jsonl", [("long " * 7000, "")])
    error = cli("predict", run, source, "--to", tmp_path / "out.xlsx", "--json").error(code=2)
    assert "35,000 characters" in error["what"] and ".jsonl" in error["hint"]
    assert cli("predict", run, source, "--to", tmp_path / "out.csv").code == 0
