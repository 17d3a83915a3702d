"""Files: packed, missing, too large, and not what their names say."""

import gzip
from pathlib import Path

import pytest

from tonetune.data.readers import FORMATS, ReadOptions, read_table
from tonetune.data.readers.files import LONGEST_CELL, LONGEST_LINE, MODEST_BYTES, file_sha256
from tonetune.errors import DataError, UsageError

ROWS = "text,label\na fine day,good\nnot so,bad\n"


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv"])
def test_gzip_is_known_by_its_bytes(tmp_path: Path, name: str) -> None:
    plain, packed = tmp_path / "plain.csv", tmp_path / name
    plain.write_text(ROWS)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_table(packed).rows == read_table(plain).rows
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DataError, match="gzip"):
        read_table(packed)


def test_a_file_named_gz_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_text(ROWS)
    with pytest.raises(DataError, match="gzip"):
        read_table(tmp_path / "a.csv.gz")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(bytes(2 * MODEST_BYTES)))
    with pytest.raises(DataError, match="over 100 times"):
        read_table(tmp_path / "a.csv.gz")


def test_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text(ROWS)
    with pytest.raises(DataError) as error:
        read_table(tmp_path / "review.csv")
    assert error.value.where == str(tmp_path / "review.csv")
    assert "reviews.csv" in str(error.value.hint)
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "nowhere" / "review.csv")


def test_directories_and_unsupported_endings(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(DataError, match="directory"):
            read_table(path)
    (tmp_path / "a.docx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"\.docx") as error:
        read_table(tmp_path / "a.docx")
    assert all(ending in str(error.value.hint) for ending in FORMATS)
    for name in ("a.xls", "a.ods", "A.XLS"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(DataError, match="cannot be read") as error:
            read_table(tmp_path / name)
        assert str(error.value.hint).startswith("save it as .xlsx")


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending not in (".xlsx", ".xlsm", ".parquet")])
def test_a_line_without_end_is_an_error_with_its_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(b'{"text": "a"}\n' + b"a" * (LONGEST_LINE + 1))
    with pytest.raises(DataError, match="line of more than 10,000,000") as error:
        read_table(path)
    assert error.value.where == f"{path}:2"


def test_a_cell_longer_than_a_book_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    long = "words\n" * (LONGEST_CELL // 6)
    path.write_text(f'text,label\na,b\n"{long}",pos\n')
    assert len(read_table(path)) == 2
    path.write_text(f'text,label\na,b\n"{long} and more",pos\n')
    with pytest.raises(DataError, match="cell of more than 1,000,000") as error:
        read_table(path)
    assert error.value.where == f"{path}:3"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.json"])
@pytest.mark.parametrize("line", [b"a", b"[,\t"])
def test_a_line_of_100_mb(tmp_path: Path, name: str, line: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(line * (100_000_000 // len(line)))
    with pytest.raises(DataError):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "option", "flag"),
    [
        ("a.jsonl", ReadOptions(delimiter=","), "--delimiter"),
        ("a.jsonl", ReadOptions(header=False), "--no-header"),
        ("a.csv", ReadOptions(sheet="1"), "--sheet"),
        ("a.parquet", ReadOptions(encoding="utf-8"), "--encoding"),
    ],
)
def test_an_option_that_means_nothing_is_refused(tmp_path: Path, name: str, option: ReadOptions, flag: str) -> None:
    (tmp_path / name).write_text(ROWS)
    with pytest.raises(UsageError) as error:
        read_table(tmp_path / name, option)
    assert error.value.where == flag


def test_the_hash_of_a_directory_is_over_names_and_contents(tmp_path: Path) -> None:
    hashes = set()
    for name, content in (("a", "1"), ("a", "2"), ("b", "1")):
        directory = tmp_path / f"{name}{content}"
        directory.mkdir()
        (directory / name).write_text(content)
        hashes.add(file_sha256(directory))
    assert len(hashes) == 3
