"""Encodings: what was written comes back, and what cannot be read says so."""

import gzip
from pathlib import Path

import pytest

from tonetune.data.readers import read_table
from tonetune.errors import DataError

SIMPLIFIED = "这家酒店的早餐很好吃，服务也热情，下次还会来。"
TRADITIONAL = "這個產品真的很好用，我非常喜歡，客服態度也不錯。"
FRENCH = "Ce café est très agréable, j'ai adoré la crème brûlée"
RUSSIAN = "Отличный товар, очень доволен покупкой и доставкой"


def written(path: Path, text: str, encoding: str) -> Path:
    path.write_bytes(f'text,label\n"{text}",good\n"{text[::-1]}",bad\n'.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (SIMPLIFIED, "utf-8", "utf-8"),
        (SIMPLIFIED, "utf-8-sig", "utf-8-sig"),
        (SIMPLIFIED, "utf-16", "utf-16"),
        (FRENCH, "utf-16-le", "utf-16-le"),
        (FRENCH, "utf-16-be", "utf-16-be"),
        (FRENCH, "utf-32", "utf-32"),
        (SIMPLIFIED, "gb18030", "gb18030"),
        (SIMPLIFIED, "gb2312", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (FRENCH, "cp1252", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
    ],
)
def test_encoding_is_found_and_text_comes_back(tmp_path: Path, text: str, encoding: str, found: str) -> None:
    table = read_table(written(tmp_path / "a.csv", text, encoding))
    assert table.encoding == found
    assert table.columns == ["text", "label"]
    assert [row["text"] for row in table.rows] == [text, text[::-1]]


def test_encoding_can_be_named(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", SIMPLIFIED, "gb18030"), encoding="gbk")
    assert (table.encoding, table.rows[0]["text"]) == ("gbk", SIMPLIFIED)


def test_gzip(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.csv", SIMPLIFIED, "gb18030")
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_table(packed).rows == read_table(plain).rows
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DataError, match="gzip"):
        read_table(packed)


def test_one_damaged_byte_is_named_and_does_not_turn_chinese_into_latin(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"text,label\n{SIMPLIFIED},good\n".encode() + b"\xff,bad\n")
    with pytest.raises(DataError) as error:
        read_table(path)
    assert error.value.where == f"{path}:3"
    assert "0xff" in error.value.what
    assert "--encoding" in str(error.value.hint)


def test_wrong_and_unknown_encodings(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", SIMPLIFIED, "gb18030")
    with pytest.raises(DataError, match="is not utf-8"):
        read_table(path, encoding="utf-8")
    with pytest.raises(DataError, match="no encoding 'utf-9'"):
        read_table(path, encoding="utf-9")
    with pytest.raises(DataError, match="no encoding 'hex'"):
        read_table(path, encoding="hex")  # a codec of bytes, not of text


def test_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path / "reviews.csv", FRENCH, "utf-8")
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
    assert ".jsonl" in str(error.value.hint)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(DataError):
        read_table(path)
