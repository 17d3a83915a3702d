"""Codebooks: every code has a name, or the row that has none is named."""

from pathlib import Path

import pytest

from tonetune.data.inspect import inspect_files
from tonetune.data.readers import ReadOptions
from tonetune.data.readers.codebook import Codebook, read_codebook
from tonetune.errors import DataError


def book(tmp_path: Path, content: str) -> Codebook:
    (tmp_path / "codes.txt").write_text(content, encoding="utf-8")
    return read_codebook(tmp_path / "codes.txt")


@pytest.mark.parametrize("content", ["anger\njoy\n", "0\tanger\n1\tjoy\n", "1\t joy \r\n\r\n0\tanger"])
def test_names_by_code_or_in_order(tmp_path: Path, content: str) -> None:
    codes = book(tmp_path, content)
    assert [codes.name(code, origin="a:1") for code in ("0", " 1 ", "1.0", "0.0")] == ["anger", "joy", "joy", "anger"]


def test_codes_may_be_words(tmp_path: Path) -> None:
    assert book(tmp_path, "A\tanger\nJ\tjoy\n").name("J", origin="a:1") == "joy"


@pytest.mark.parametrize(
    ("content", "message"), [("", "empty"), ("0\tanger\njoy\n", "not all alike"), ("1\ta\n1.0\tb\n", "twice")]
)
def test_what_is_no_codebook(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        book(tmp_path, content)
    assert error.value.where == str(tmp_path / "codes.txt")


def test_codes_of_several_labels_get_names_and_an_unknown_one_is_named_by_its_row(tmp_path: Path) -> None:
    """The layout of GoEmotions: text, codes, id, without a header."""
    book(tmp_path, "admiration\nanger\njoy\n")
    lines = [f"what a day number {i}\t{['2', '0,2', '1', '1,2'][i % 4]}\tid{i}" for i in range(12)]
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    options = ReadOptions(header=False, codebook=tmp_path / "codes.txt")
    inspection = inspect_files([path], text="auto", label="auto", options=options)
    assert (inspection.columns.text, inspection.columns.label) == (("1",), ("2",))
    assert inspection.columns.task == "multi-label"
    assert inspection.labels == {"joy": 9, "anger": 6, "admiration": 3}
    path.write_text("\n".join([*lines, "one more\t3\tid"]), encoding="utf-8")
    with pytest.raises(DataError, match="'3' is not in") as error:
        inspect_files([path], text="auto", label="auto", options=options)
    assert error.value.where == "a.tsv:13"
