"""Encodings: what was written comes back, what is uncertain is asked, what is no text says so."""

import random
from pathlib import Path

import pytest

from tonetune.data.readers import ReadOptions, Table, read_table
from tonetune.data.readers.encodings import decode
from tonetune.data.readers.files import SIGNATURES
from tonetune.errors import DataError, UncertainError

SIMPLIFIED = "这家酒店的早餐很好吃，服务也热情，下次还会来。"
TRADITIONAL = "這個產品真的很好用，我非常喜歡，客服態度也不錯。"
FRENCH = "Ce café est très agréable, j'ai adoré la crème brûlée"
GERMAN = "das frühstück war großartig, die straße leider laut"
RUSSIAN = "Отличный товар, очень доволен покупкой и доставкой"
JAPANESE = "今日はとても楽しかったです、また来たいと思います"
KOREAN = "오늘 정말 행복했어요 서비스가 좋았습니다"


def written(path: Path, text: str, encoding: str) -> Path:
    path.write_bytes(f'text,label\n"{text}",good\n"{text[::-1]}",bad\n'.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (SIMPLIFIED, "utf-8", "utf-8"),
        (SIMPLIFIED, "utf-8-sig", "utf-8-sig"),
        (SIMPLIFIED, "utf-16", "utf-16"),
        (SIMPLIFIED, "utf-16-le", "utf-16-le"),
        (SIMPLIFIED, "utf-16-be", "utf-16-be"),
        (FRENCH, "utf-16-le", "utf-16-le"),
        (FRENCH, "utf-16-be", "utf-16-be"),
        (FRENCH, "utf-32", "utf-32"),
        (SIMPLIFIED, "gb18030", "gb18030"),
        (SIMPLIFIED, "gb2312", "gb18030"),
        (TRADITIONAL, "gbk", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (FRENCH, "cp1252", "cp1252"),
        (GERMAN, "latin-1", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
        (JAPANESE, "shift_jis", "cp932"),
    ],
)
def test_encoding_is_found_and_text_comes_back(tmp_path: Path, text: str, encoding: str, found: str) -> None:
    table = read_table(written(tmp_path / "a.csv", text, encoding))
    assert table.encoding == found
    assert table.columns == ["text", "label"]
    assert [row["text"] for row in table.rows] == [text, text[::-1]]


@pytest.mark.parametrize("num_rows", [1, 2, 20, 2000])
def test_real_chinese_rows_are_never_misread(shared_data: Path, num_rows: int) -> None:
    """Right, or asked about; never read as something else."""
    rng = random.Random(num_rows)
    rows = read_table(shared_data / "zh_ewect_usual" / "dev.csv").rows
    asked = 0
    for _ in range(30 if num_rows < 100 else 2):
        text = "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rng.choices(rows, k=num_rows))
        try:
            decoded = decode(text.encode("gb18030"), path=Path("a.csv"), encoding=None)
        except UncertainError:
            asked += 1
        else:
            assert decoded.text == text
    assert asked <= (3 if num_rows == 1 else 0)


def test_what_could_be_two_encodings_is_asked_with_what_each_reads(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", KOREAN, "euc_kr")
    with pytest.raises(UncertainError, match="--encoding") as error:
        read_table(path)
    found = {str(candidate["encoding"]): str(candidate["example"]) for candidate in error.value.candidates}
    assert {candidate["role"] for candidate in error.value.candidates} == {"encoding"}
    assert "cp949" in found and KOREAN.startswith(found["cp949"].split('"')[0])
    assert read_table(path, ReadOptions(encoding="cp949")).rows[0]["text"] == KOREAN


def test_encoding_can_be_named(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", SIMPLIFIED, "gb18030"), ReadOptions(encoding="gbk"))
    assert (table.encoding, table.rows[0]["text"]) == ("gbk", SIMPLIFIED)


def test_wrong_and_unknown_encodings(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", SIMPLIFIED, "gb18030")
    with pytest.raises(DataError, match="is not utf-8"):
        read_table(path, ReadOptions(encoding="utf-8"))
    with pytest.raises(DataError, match="no encoding 'utf-9'"):
        read_table(path, ReadOptions(encoding="utf-9"))
    with pytest.raises(DataError, match="no encoding 'hex'"):
        read_table(path, ReadOptions(encoding="hex"))  # a codec of bytes, not of text


def mixed(tmp_path: Path, *lines: bytes) -> Table:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join([b"text,label", f"{SIMPLIFIED},good".encode(), *lines]))
    return read_table(path)


def test_western_remains_in_a_utf8_file_are_read_and_noted(tmp_path: Path) -> None:
    table = mixed(tmp_path, "don’t – “ever”,bad".encode("cp1252"), "café,good".encode(), "café,bad".encode("latin-1"))
    assert [row["text"] for row in table.rows] == [SIMPLIFIED, "don’t – “ever”", "café", "café"]
    assert table.encoding == "utf-8"
    assert table.notes == {"legacy_bytes": [3, 5]}


@pytest.mark.parametrize("line", [b"\xff,bad", "好".encode()[:2] + b",bad", "好 don’t,bad".encode("gb18030")])
def test_one_damaged_line_is_named_and_does_not_turn_chinese_into_latin(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(DataError, match="0x") as error:
        mixed(tmp_path, b"fine,good", line)
    assert error.value.where == f"{tmp_path / 'a.csv'}:4"
    assert "--encoding" in str(error.value.hint)


def test_nul_characters_are_left_out_and_noted(tmp_path: Path) -> None:
    table = mixed(tmp_path, b"a\0b,go\0od", b"c,bad")
    assert table.rows[1] == {"text": "ab", "label": "good"}
    assert table.notes == {"nul_bytes": [3]}


@pytest.mark.parametrize("place", range(11, 15))
def test_a_nul_character_makes_no_utf16_of_a_small_file(tmp_path: Path, place: int) -> None:
    content = b"text,label\na b,x\n"
    (tmp_path / "a.csv").write_bytes(content[:place] + b"\0" + content[place:])
    table = read_table(tmp_path / "a.csv")
    assert (table.encoding, table.rows[0]["text"]) == ("utf-8", "a b")


@pytest.mark.parametrize("size", [40, 1000, 300_000])
@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_are_no_text(tmp_path: Path, size: int, seed: int) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + random.Random(seed).randbytes(size))
    with pytest.raises(DataError):
        read_table(path)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_other_formats_are_named(tmp_path: Path, signature: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(signature + b"text,label\na,b\n")
    with pytest.raises(DataError, match=SIGNATURES[signature].split(":")[0]):
        read_table(path)
