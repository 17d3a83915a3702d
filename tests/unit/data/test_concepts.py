"""The table of label names: whole, unambiguous, and found whatever the case or language."""

import csv
from importlib.resources import files

import pytest

from tonetune.data.concepts import known_concept

LINES = files("tonetune.data").joinpath("words.tsv").read_text(encoding="utf-8").splitlines()
ROWS = list(csv.DictReader((line for line in LINES if not line.startswith("#")), delimiter="\t"))


def test_the_table_is_whole_and_its_names_are_unique() -> None:
    assert len(ROWS) > 30
    names = [name for row in ROWS for name in row["names"].split("|")]
    assert len(set(names)) == len(names)
    assert all(name == name.casefold().strip() and name for name in names)
    words = [word for row in ROWS for language in ("en", "zh") for word in row[language].split("|")]
    assert all(word and word == word.strip() for word in words)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["names"].partition("|")[0])
def test_every_name_of_a_row_finds_it(row: dict[str, str]) -> None:
    concepts = [known_concept(name) for name in row["names"].split("|")]
    assert {concept.name for concept in concepts if concept} == {row["names"].partition("|")[0]} and all(concepts)


@pytest.mark.parametrize("name", ["joy", "Joy", " HAPPY ", "happiness", "开心", "喜悦"])
def test_a_label_is_known_under_all_its_names(name: str) -> None:
    concept = known_concept(name)
    assert concept is not None and concept.words["en"][0] == "happy" and concept.words["zh"][0] == "开心"


def test_a_name_with_a_joining_sign_is_known_and_another_is_not() -> None:
    assert known_concept("No_Emotion") == known_concept("neutral") is not None
    assert known_concept("billing question") is None
