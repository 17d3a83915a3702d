"""`tonetune inspect` and `tonetune prepare`: what they say and write, and that uncertainty writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny

UNCERTAIN = 'first,second,label\n"a happy day","what a morning",joy\n"so sad today","at the station",sadness\n' * 3


@pytest.fixture
def uncertain(tmp_path: Path) -> Path:
    """A file with two columns of text."""
    path = tmp_path / "two.csv"
    path.write_text(UNCERTAIN, encoding="utf-8")
    return path


def test_inspect_tells_how_files_are_understood(cli: Any, emotion_files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = cli("inspect", emotion_files["zh.csv"], emotion_files["zh.jsonl"], "--to", out, "--json")
    document = result.document
    assert [file["rows"] for file in document["files"]] == [200, 200]
    assert {
        "path",
        "encoding",
        "format",
        "rows",
        "usable",
        "empty_text",
        "missing_label",
        "duplicates",
        "contradictions",
    } <= set(document["files"][0])
    assert (document["text_column"], document["label_column"], document["task"]) == ("text", "label", "single-label")
    assert document["labels"] == dict.fromkeys(sorted(tiny.CUES["zh"]), 100)
    assert document["problems"][0]["code"] == "duplicates"
    assert "candidates" not in document
    assert len(out.read_text(encoding="utf-8").splitlines()) == 400


def test_inspect_is_readable_on_eighty_columns(cli: Any, tmp_path: Path) -> None:
    rows = [*tiny.emotion_rows("en", 40), ("", "joy"), ("no label", ""), tiny.emotion_rows("en", 1)[0]]
    directory = tmp_path / "a-directory-with-a-rather-long-name" / "and-another-one-below-it"
    directory.mkdir(parents=True)
    result = cli("inspect", tiny.write_rows(directory / "reviews.csv", rows))
    assert result.code == 0 and result.out == ""
    lines = result.err.splitlines()
    assert any("reviews.csv" in line for line in lines)
    for name, count in (("usable", 41), ("empty text", 1), ("missing label", 1), ("duplicates", 1)):
        assert any(name in line and str(count) in line.split() for line in lines), name
    assert "joy" in result.err and "these rows are left out" in " ".join(result.err.split())


def test_quiet_inspect_says_nothing(cli: Any, emotion_files: dict[str, Path], tmp_path: Path) -> None:
    result = cli("inspect", emotion_files["en.csv"], "--to", tmp_path / "rows.jsonl", "-q")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_uncertain_columns_are_asked_for_and_nothing_is_written(cli: Any, uncertain: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = cli("inspect", uncertain, "--to", out, "--json")
    assert result.code == 3
    candidates = result.document["candidates"]
    assert [c["column"] for c in candidates if c["role"] == "text"] == ["first", "second"]
    plain = cli("inspect", uncertain, "--to", out)
    assert plain.code == 3 and "--text" in plain.err
    error = cli("prepare", uncertain, "--out", tmp_path / "prepared", "--json").error(code=3)
    assert "first, second" in error["what"] and "--text" in error["hint"]
    assert list(tmp_path.iterdir()) == [uncertain]
    assert cli("inspect", uncertain, "--text", "second", "--json").document["text_column"] == "second"


@pytest.mark.slow
def test_prepare_writes_splits_that_train_can_use(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "prepared"
    document = cli("prepare", emotion_files["en.csv"], "--out", out, "--json").document
    assert document == {
        "splits": {"train": 136, "validation": 32, "test": 32}, "dropped": {}, "leaks": {"exact": 0, "near": 0}
    }  # fmt: skip
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    splits = [f"splits/{name}.jsonl" for name in ("test", "train", "validation")]
    assert written == ["changed.jsonl", "data.json", "dropped.jsonl", "labels.json", *splits]
    given = [f"--set=data.{name}={out}/splits/{name}.jsonl" for name in ("validation", "test")]
    flags = [*given, "--set", f"run.dir={tmp_path}", "--set", "train.epochs=0.2", "--json"]
    run = Path(cli("train", "--data", out / "splits/train.jsonl", *quick, *flags).document["run"])
    for name in ("train", "validation", "test"):
        texts = [
            [json.loads(line)["text"] for line in (where / f"splits/{name}.jsonl").read_text("utf-8").splitlines()]
            for where in (run, out)
        ]
        assert sorted(texts[0]) == sorted(texts[1])


def test_people_see_what_was_prepared(cli: Any, emotion_files: dict[str, Path], tmp_path: Path) -> None:
    result = cli("prepare", emotion_files["zh.jsonl"], "--out", tmp_path / "out")
    assert result.out == "" and "开心" in result.err and str(tmp_path) in "".join(result.err.split())


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_rows_changes_no_split(cli: Any, tmp_path: Path, order: int) -> None:
    data = tiny.write_rows(tmp_path / "rows.csv", tiny.emotion_rows("en", 60)[::order])
    cli("prepare", data, "--out", tmp_path / "out", "--json")
    test = [json.loads(line)["text"] for line in (tmp_path / "out/splits/test.jsonl").read_text("utf-8").splitlines()]
    again = tiny.write_rows(tmp_path / "again.csv", tiny.emotion_rows("en", 60))
    cli("prepare", again, "--out", tmp_path / "again", "--json")
    other = [
        json.loads(line)["text"] for line in (tmp_path / "again/splits/test.jsonl").read_text("utf-8").splitlines()
    ]
    assert test == other


def test_multi_label_rows_are_inspected_and_prepared(cli: Any, shared_data: Path, tmp_path: Path) -> None:
    data = shared_data / "en_goemotions" / "multilabel28_dev.csv"
    document = cli("inspect", data, "--json").document
    assert (document["task"], document["label_column"], document["label_separator"]) == ("multi-label", "labels", ",")
    flags = ["--set", f"data.rename={json.dumps(dict.fromkeys(('grief', 'pride', 'relief'), 'other'))}"]
    counts = cli("prepare", data, "--out", tmp_path / "out", *flags, "--json").document
    assert sum(counts["splits"].values()) + sum(counts["dropped"].values()) == document["files"][0]["rows"]
    rows = [json.loads(line) for line in (tmp_path / "out/splits/train.jsonl").read_text("utf-8").splitlines()]
    assert {len(row["labels"]) for row in rows} >= {1, 2, 3}
    assert cli("inspect", tmp_path / "out/splits/train.jsonl", "--json").document["task"] == "multi-label"


def test_a_question_is_a_document_and_an_error(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("what a day,pos\nso bad,neg\nfine day,pos\nnever again,neg\nwell done,pos\n", encoding="utf-8")
    result = cli("inspect", path, "--json")
    assert result.code == 3
    assert result.document["candidates"][0]["role"] == "header"
    shown = cli("inspect", path)
    assert shown.code == 3 and "candidates: header" in shown.err and "--no-header" in shown.err
    assert cli("prepare", path, "--out", tmp_path / "out", "--json").error(code=3)["type"] == "UncertainError"
    document = cli("inspect", path, "--no-header", "--json").document
    assert (document["text_column"], document["label_column"], document["files"][0]["rows"]) == ("1", "2", 5)


def test_every_flag_of_reading_is_heard_by_every_verb(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a b\nc d\ne f\ng h\n" * 5, encoding="utf-16")
    (tmp_path / "labels.txt").write_text("0\n1\n" * 10, encoding="utf-8")
    (tmp_path / "names.txt").write_text("sad\njoy\n", encoding="utf-8")
    flags = ["--label-file", tmp_path / "labels.txt", "--codebook", tmp_path / "names.txt", "--encoding", "utf-16"]
    error = cli("inspect", tmp_path / "texts.txt", *flags, "--json").error(code=3)
    assert "labels.txt" in error["where"]  # the encoding is meant for both
    (tmp_path / "labels.txt").write_text("0\n1\n" * 10, encoding="utf-16")
    assert cli("inspect", tmp_path / "texts.txt", *flags, "--json").document["labels"] == {"joy": 10, "sad": 10}
    names = ("--encoding", "--delimiter", "--sheet", "--no-header", "--label-file", "--codebook")
    for verb in ("train", "evaluate", "predict", "inspect", "prepare"):
        shown = cli(verb, "--help").out
        assert all(name in shown for name in names)


def test_inspect_reports_tokens_of_a_model(cli: Any, emotion_files: dict[str, Path], tiny_gemma: Path) -> None:
    report = cli("inspect", emotion_files["zh.csv"], "--model", tiny_gemma, "--json").document["tokens"]
    assert (
        report["texts"] == 200 and report["truncated"] == 0.0 and report["label_words"].keys() == set(tiny.CUES["zh"])
    )
    shown = cli("inspect", emotion_files["en.csv"], "--model", tiny_gemma)
    assert "tokens a character" in shown.err and "frequent words of emotions" in shown.err
    assert "tokens" not in cli("inspect", emotion_files["en.csv"], "--json").document
    assert (
        "no such directory"
        in cli("inspect", emotion_files["en.csv"], "--model", "nowhere", "--json").error(code=5)["what"]
    )
