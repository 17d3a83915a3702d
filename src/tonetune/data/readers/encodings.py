"""The encoding of a text: marks and patterns that prove it, else the legacy reading that looks like language."""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tonetune.data.readers.files import read_bytes, require_no_signature
from tonetune.errors import DataError, UncertainError

BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
SAMPLE_BYTES = 1 << 16  # from the first byte outside ASCII on; shows an encoding as well as a whole file does
MOSTLY_UTF8 = 0.9  # of the bytes outside ASCII: a UTF-8 file with some damage, not a legacy encoding
SURE = 0.8  # least share of familiar characters in the right reading
CLEAR = 0.1  # by how much it beats every other one
NEVER_SURE = "cp949"  # the bytes of common Korean are common Chinese too
CONTROLS = bytes(set(range(32)) - set(b"\0\t\n\f\r\x1a\x1b")) + b"\x7f"
MOST_CONTROLS = 0.01  # of the bytes: random ones have a tenth
SHOWN_CHARACTERS = 20

HIGH = re.compile(r"[^\x00-\x7f]")
WORD = re.compile(r"\w+")
ALONE_IN_A_WORD = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f](?![^\x00-\x7f])|(?<![^\x00-\x7f])[^\x00-\x7f](?=[A-Za-z])")
WESTERN = frozenset("àâäçèéêëîïôöùûüœæñßåøáíóúãõìòÀÂÄÇÈÉÊËÎÏÔÖÙÛÜŒÆÑÅØÁÍÓÚ")
CYRILLIC = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯІЇЄҐ")
PUNCTUATION = frozenset("‘’“”–—…€£°«»•™®©·¿¡")


def find_encoding(data: bytes, path: Path) -> str:
    """Byte order mark, then UTF-16 by its pattern of zero bytes, then UTF-8, then the likeliest legacy encoding.

    Raises DataError for bytes that are no text, UncertainError where no legacy encoding is clearly the one.
    """
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    first = _first_not_utf8(data)
    if utf16 := _zero_pattern(data[:SAMPLE_BYTES], often=first is None):
        return utf16
    if first is None or _utf8_share(data[max(0, first - SAMPLE_BYTES) : first + SAMPLE_BYTES]) > MOSTLY_UTF8:
        return "utf-8"
    sample = data[:SAMPLE_BYTES]
    if len(sample) - len(sample.translate(None, CONTROLS)) > MOST_CONTROLS * len(sample):
        raise DataError("the file is not text", where=str(path), hint="convert it to a format that tonetune reads")
    begin = max(data.rfind(b"\n", 0, first) + 1, first - SAMPLE_BYTES)
    return _legacy(data[begin : first + SAMPLE_BYTES], path)


def _first_not_utf8(data: bytes) -> int | None:
    try:
        data.decode("utf-8")
        return None
    except UnicodeDecodeError as error:
        return error.start


def _zero_pattern(sample: bytes, *, often: bool) -> str | None:
    """UTF-16 without byte order mark: zero bytes stand at odd or at even places only, and are `often` there.

    Where they are not, as in Chinese, at least a line end has one.
    """
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if min(even, odd) > max(even, odd) / 10 or max(even, odd) < (max(8, len(sample) / 16) if often else 1):
        return None
    name = "utf-16-le" if odd > even else "utf-16-be"
    return name if often or "\n" in sample.decode(name, errors="ignore") else None


def _utf8_share(data: bytes) -> float:
    """Share of the bytes outside ASCII that are valid UTF-8."""
    num_high = len(data.translate(None, bytes(range(128))))
    valid = "".join(HIGH.findall(data.decode("utf-8", errors="ignore")))
    return len(valid.encode()) / num_high


def _legacy(sample: bytes, path: Path) -> str:
    """The encoding in which nearly all characters outside ASCII are familiar ones, and in no other."""
    readings: dict[str, str] = {}
    scores: dict[str, float] = {}
    for name, num_familiar in LEGACY.items():
        try:
            text = codecs.getincrementaldecoder(name)().decode(sample)  # the last character may be cut
        except UnicodeDecodeError:
            continue
        if high := HIGH.search(text):
            readings[name] = text[high.start() :].split("\n")[0][:SHOWN_CHARACTERS]
            scores[name] = num_familiar(text) / len(HIGH.findall(text))
    best = max(scores.values(), default=0.0)
    likely = [name for name, score in scores.items() if score >= SURE and score > best - CLEAR]
    if len(likely) == 1 and likely[0] != NEVER_SURE:
        return likely[0]
    shown = " or ".join(f"{name} ({readings[name]!r})" for name in likely)
    raise UncertainError(
        f"what is its encoding? candidates: {shown or 'none of those that are known'}",
        candidates=[{"role": "encoding", "encoding": name, "example": readings[name]} for name in likely],
        where=str(path),
        hint="name it with --encoding (gb18030, big5, cp1252, cp1250, shift_jis …)",
    )


def _num_chinese(text: str) -> int:
    """Characters of the commoner half of GB2312 or Big5, their punctuation, and emoji; a lone one in a word is none."""
    ranges = {"gb2312": ((0xA1, 0xA3), (0xB0, 0xD7)), "big5": ((0xA1, 0xC6),)}
    return sum(
        ord(character) >= 0x1F000
        or any(low <= _lead(character, name) <= high for name, parts in ranges.items() for low, high in parts)
        for character in HIGH.findall(ALONE_IN_A_WORD.sub("", text))
    )


def _num_japanese(text: str) -> int:
    """Kana and the commoner half of JIS X 0208; none where a fifth of the characters are not kana."""
    high = HIGH.findall(text)
    if sum("\u3040" <= character <= "\u30ff" for character in high) < 0.2 * len(high):
        return 0
    return sum(0xA1 <= _lead(character, "euc_jp") <= 0xCF for character in high)


def _num_korean(text: str) -> int:
    return sum(0xA1 <= _lead(character, "euc_kr") <= 0xC8 for character in HIGH.findall(text))


def _lead(character: str, encoding: str) -> int:
    """First of the two bytes of a character, 0 where it has not two."""
    encoded = character.encode(encoding, errors="ignore")
    return encoded[0] if len(encoded) == 2 else 0


def _num_western(text: str) -> int:
    return sum(map(PUNCTUATION.__contains__, text)) + sum(
        len(high) for word in _plain_words(text) if WESTERN.issuperset(high := HIGH.findall(word))
    )


def _num_cyrillic(text: str) -> int:
    return sum(map(PUNCTUATION.__contains__, text)) + sum(
        len(word) for word in _plain_words(text) if CYRILLIC.issuperset(word)
    )


def _plain_words(text: str) -> list[str]:
    """Words with letters outside ASCII whose capitals stand where capitals do."""
    words = [word for word in WORD.findall(text) if not word.isascii()]
    return [word for word in words if word.islower() or word.istitle() or word.isupper()]


LEGACY: Mapping[str, Callable[[str], int]] = {
    "gb18030": _num_chinese,
    "big5": _num_chinese,
    "cp1252": _num_western,
    "cp1251": _num_cyrillic,
    "cp932": _num_japanese,
    "cp949": _num_korean,
}
"""Encodings before Unicode, each with a count of the familiar characters outside ASCII in a text read by it."""


@dataclass(frozen=True)
class Decoded:
    """A text, the name of its encoding, and the numbers of damaged lines by the kind of their damage."""

    text: str
    encoding: str
    notes: Mapping[str, Sequence[int]]


def read_text(path: Path, *, encoding: str | None) -> Decoded:
    """The text of a file, unpacked. Raises DataError as `decode` does, and for a file that cannot be read."""
    return decode(read_bytes(path), path=path, encoding=encoding)


def decode(data: bytes, *, path: Path, encoding: str | None) -> Decoded:
    """The text of `data` without byte order mark and NUL characters.

    Lines of a UTF-8 file that are Western words in Windows-1252 are read as such and noted as "legacy_bytes", lines
    with NUL characters as "nul_bytes".
    Raises DataError for bytes of another format and where they do not fit the encoding, with the line of the first that
    does not.
    """
    require_no_signature(data, path)
    name = encoding if encoding is not None else find_encoding(data, path)
    notes: dict[str, list[int]] = {}
    try:
        text = data.decode(name)
    except LookupError:
        known = "common ones are utf-8, gb18030, big5, utf-16, cp1252"
        raise DataError(f"there is no encoding {name!r}", where=str(path), hint=known) from None
    except UnicodeDecodeError as error:
        if encoding is not None or name != "utf-8":
            raise _bad_byte(data, error.start, path, name) from error
        text, notes["legacy_bytes"] = _with_western_lines(data, path)
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        notes["nul_bytes"] = [number for number, line in enumerate(text.split("\n"), start=1) if "\0" in line]
        text = text.replace("\0", "")
    return Decoded(text, name, notes)


def _with_western_lines(data: bytes, path: Path) -> tuple[str, list[int]]:
    lines: list[str] = []
    western: list[int] = []
    position = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            text = line.decode("cp1252", errors="ignore")
            if _num_western(text) != len(line) - len(line.translate(None, bytes(range(128, 256)))):
                raise _bad_byte(data, position + error.start, path, "utf-8") from error
            lines.append(text)
            western.append(number)
        position += len(line) + 1
    return "\n".join(lines), western


def _bad_byte(data: bytes, position: int, path: Path, name: str) -> DataError:
    line = data.count(b"\n", 0, position) + 1
    hint = "repair that line, or name another encoding with --encoding (gb18030, big5, cp1252 …)"
    return DataError(f"byte 0x{data[position]:02x} is not {name}", where=f"{path}:{line}", hint=hint)
