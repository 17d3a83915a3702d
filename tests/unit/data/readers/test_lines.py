"""Lines of text: fastText's labels, labels before a colon, tabs, plain texts, and what tells them apart."""

import random
from pathlib import Path

import pytest

from tonetune.data.columns import find_columns
from tonetune.data.readers import ReadOptions, Table, read_table
from tonetune.errors import DataError

WORDS = "fine bad 好 café so-so it's 10% :-) #tag __init__".split()


def read(tmp_path: Path, content: str, **options: object) -> Table:
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8", newline="")
    return read_table(path, ReadOptions(**options))  # type: ignore[arg-type]


def texts(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(count)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("seed", range(3))
def test_fasttext_lines_come_back(tmp_path: Path, ending: str, seed: int) -> None:
    rng = random.Random(seed)
    rows = [(text, rng.sample(["joy", "anger", "fear"], k=rng.randint(0, 3))) for text in texts(seed)]
    lines = ["".join(f"__label__{name} " for name in names) + text for text, names in rows]
    table = read(tmp_path, ending.join(lines))
    assert (table.format, table.columns) == ("fasttext", ["text", "labels"])
    columns = find_columns(table, text="auto", label="auto")
    assert columns.task == "multi-label"
    found = [(row["text"], list(columns.labels_of(row) or ())) for row in table.rows]
    assert found == rows


def test_fasttext_with_one_label_each_is_single_label(tmp_path: Path) -> None:
    table = read(tmp_path, "__label__very_good\tfine day\n\nbad __label__bad\n\n__label__bad so bad\n")
    assert table.rows == [
        {"text": "fine day", "label": "very_good"},
        {"text": "bad", "label": "bad"},
        {"text": "so bad", "label": "bad"},
    ]
    assert table.lines == [1, 3, 5]


@pytest.mark.parametrize("colon", [":", ": ", "：", " : "])
def test_labels_before_a_colon(tmp_path: Path, colon: str) -> None:
    rows = [(text, ["开心", "sad"][i % 2]) for i, text in enumerate(texts(0, 20))]
    table = read(tmp_path, "\n".join(f"{label}{colon}{text}" for text, label in rows))
    assert table.format == "label:text"
    assert [(row["text"], row["label"]) for row in table.rows] == rows


def test_a_colon_in_texts_is_no_label_unless_it_is_named(tmp_path: Path) -> None:
    content = "Note: it was fine\nHe said: never\nwhat a day\nTime 10:30\n"
    assert [row["text"] for row in read(tmp_path, content).rows] == content.splitlines()
    with pytest.raises(DataError, match="no colon") as error:
        read(tmp_path, content, delimiter=":")
    assert error.value.where == f"{tmp_path / 'a.txt'}:3"
    named = read(tmp_path, "a: b: c\nd: e\n", delimiter="colon")
    assert [(row["label"], row["text"]) for row in named.rows] == [("a", "b: c"), ("d", "e")]


def test_tabs_make_cells_and_none_makes_none(tmp_path: Path) -> None:
    content = "text\tlabel\na, b\tpos\nc\tneg\n"
    assert read(tmp_path, content).columns == ["text", "label"]
    assert read(tmp_path, content, header=False).rows[1] == {"1": "a, b", "2": "pos"}
    assert read(tmp_path, content, delimiter="none").rows[1] == {"text": "a, b\tpos"}
    assert read(tmp_path, "text|label\na|pos\n", delimiter="bar").rows == [{"text": "a", "label": "pos"}]


def test_plain_lines_keep_blank_ones_in_their_place(tmp_path: Path) -> None:
    table = read(tmp_path, "one\r\n\r\nthree\n")
    assert (table.format, table.lines) == ("lines", [1, 2, 3])
    assert [row["text"] for row in table.rows] == ["one", "", "three"]
    with pytest.raises(DataError, match="empty"):
        read(tmp_path, "\n \n")
