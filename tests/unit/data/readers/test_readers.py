"""Every format, encoding and delimiter: rows that are written come back the same."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import openpyxl
import polars
import pytest

from tonetune.data.readers import FORMATS, ReadOptions, read_table

Rows = list[tuple[str, str]]
PIECES = ["好", "的 ", "a", " ", ",", ";", "|", '"', "'", "\\", "😀", "é", "：", "__label__x ", "x y", "1", "=", "#"]
CHINESE = "今天天气很好我们去公园玩吧真的非常开心"
ENCODINGS = {
    "utf-8": [*PIECES, "\u2028", "\ufeff", "ｆ"],
    "utf-8-sig": PIECES,
    "utf-16": PIECES,
    "utf-16-le": PIECES,
    "utf-16-be": PIECES,
    "utf-32": PIECES,
    "gb18030": [*CHINESE, "a", ", ", "😀", '"'],
    "big5": [*"這個產品真的很好用我們非常喜歡", "a", ", ", '"'],
    "cp1252": ["café ", "très ", "a", ", ", '"', "naïve ", "– "],
}


def rows_of(pieces: list[str], seed: int, line_end: str = "\n") -> Rows:
    rng = random.Random(seed)
    pieces = [*pieces, line_end]
    labels = ["joy", "fear", "anger"]
    return [("x" + "".join(rng.choices(pieces, k=rng.randint(3, 30))) + ".", rng.choice(labels)) for _ in range(60)]


def delimited(rows: Rows, delimiter: str, *, quoting: int = csv.QUOTE_MINIMAL, ending: str = "\n") -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=ending)  # type: ignore[arg-type]
    writer.writerows([("text", "label"), *rows])
    return out.getvalue()


def read(path: Path, options: ReadOptions | None = None) -> Rows:
    return [(row["text"] or "", row["label"] or "") for row in read_table(path, options or ReadOptions()).rows]


WRITE: dict[str, Callable[[Rows], str]] = {
    ".csv": lambda rows: delimited(rows, ","),
    ".tsv": lambda rows: delimited(rows, "\t"),
    ".jsonl": lambda rows: "".join(json.dumps({"text": t, "label": c}, ensure_ascii=False) + "\n" for t, c in rows),
    ".json": lambda rows: json.dumps([{"text": t, "label": c} for t, c in rows], ensure_ascii=False, indent=1),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("ending", WRITE)
@pytest.mark.parametrize("packed", [False, True])
def test_every_text_format_in_every_encoding(tmp_path: Path, encoding: str, ending: str, packed: bool) -> None:
    for seed in range(3):
        rows = rows_of(ENCODINGS[encoding], seed)
        content = WRITE[ending](rows).encode(encoding)
        path = tmp_path / f"a{ending}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
        assert read(path) == rows
        assert read(path, ReadOptions(encoding=encoding)) == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^", "\x01"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_delimiter_and_line_end_is_found(tmp_path: Path, delimiter: str, quoting: int, ending: str) -> None:
    for seed in range(3):
        rows = rows_of(PIECES, seed, ending)
        path = tmp_path / "a.csv"
        path.write_text(delimited(rows, delimiter, quoting=quoting, ending=ending), encoding="utf-8", newline="")
        table = read_table(path)
        assert table.delimiter == delimiter
        assert [(row["text"], row["label"]) for row in table.rows] == rows


@pytest.mark.parametrize("delimiter", ["~", "#", "§", " ", ":"])
def test_any_other_delimiter_can_be_named(tmp_path: Path, delimiter: str) -> None:
    rows = rows_of(PIECES, 0)
    (tmp_path / "a.txt").write_text(delimited(rows, delimiter), encoding="utf-8", newline="")
    (tmp_path / "a.csv").write_text(delimited(rows, delimiter), encoding="utf-8", newline="")
    assert read(tmp_path / "a.csv", ReadOptions(delimiter=delimiter)) == rows


def _excel(path: Path, rows: Rows) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in [("text", "label"), *rows]:
        sheet.append(row)
    book.save(path)


BINARY: dict[str, Callable[[Path, Rows], None]] = {
    ".xlsx": _excel,
    ".parquet": lambda path, rows: polars.DataFrame(rows, schema=["text", "label"], orient="row").write_parquet(path),
}


@pytest.mark.parametrize("ending", BINARY)
@pytest.mark.parametrize("seed", range(3))
def test_every_binary_format(tmp_path: Path, ending: str, seed: int) -> None:
    rows = rows_of(PIECES, seed)
    BINARY[ending](tmp_path / f"a{ending}", rows)
    assert read(tmp_path / f"a{ending}") == rows


def test_every_format_is_tested_here_or_beside() -> None:
    tested = {*WRITE, *BINARY}
    beside = {".txt": "test_lines.py", ".tab": ".tsv", ".ndjson": ".jsonl", ".xlsm": ".xlsx"}
    assert set(FORMATS) == tested | set(beside)
