"""Bytes of a file to text: gzip, byte order marks, Chinese and legacy encodings, and errors that name the file."""

import difflib
import gzip
import zlib
from pathlib import Path

import charset_normalizer

from tonetune.errors import DataError

BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
GUESS_BYTES = 1 << 18  # a quarter of a MiB shows an encoding as well as a whole file does
MOSTLY_UTF8 = 0.9  # of the bytes outside ASCII: a UTF-8 file with some damage, not a legacy encoding


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name ends in .gz.

    Raises DataError for a missing file (naming files with a similar name), a directory, a file that may not be read
    and a broken gzip file.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except FileNotFoundError:
        raise DataError("no such file", where=str(path), hint=_similar_names(path)) from None
    except IsADirectoryError:
        raise DataError("is a directory, not a file", where=str(path), hint="name the file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"is not a whole gzip file: {error}", where=str(path), hint="fetch or pack it again") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), hint="check its permissions") from error


def _similar_names(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the directory {path.parent} does not exist either; check the path"
    names = sorted(p.name for p in path.parent.iterdir() if p.is_file())
    close = difflib.get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"check the name; {path.parent} holds no similar one"


def decode(data: bytes, *, path: Path, encoding: str | None) -> tuple[str, str]:
    """The text of `data` without byte order mark and NUL characters, and the name of its encoding.

    Without `encoding` it is found: byte order mark, then UTF-8, then UTF-16 by its pattern of zero bytes, then what
    charset-normalizer finds likeliest (GB2312 and GBK are read as GB18030, which contains both).
    Raises DataError where the bytes do not fit the encoding, with the line of the first that does not.
    """
    name = encoding if encoding is not None else _find_encoding(data, path)
    try:
        return data.decode(name).removeprefix("\ufeff").replace("\0", ""), name
    except LookupError:
        raise DataError(
            f"there is no encoding {name!r}",
            where=str(path),
            hint="common ones are utf-8, gb18030, big5, utf-16, cp1252",
        ) from None
    except UnicodeDecodeError as error:
        raise _bad_byte(data, error, path, name) from error


def _find_encoding(data: bytes, path: Path) -> str:
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    try:
        data.decode("utf-8")
        if data[:GUESS_BYTES].count(0) < len(data[:GUESS_BYTES]) / 8:
            return "utf-8"
    except UnicodeDecodeError as error:
        if _utf8_share(data) > MOSTLY_UTF8:
            raise _bad_byte(data, error, path, "utf-8") from error
    return _zero_pattern(data) or _legacy_guess(data, path)


def _zero_pattern(data: bytes) -> str | None:
    """UTF-16 without byte order mark shows in zero bytes that stand at odd or at even places only."""
    sample = data[:GUESS_BYTES]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if max(even, odd) < len(sample) / 16 or min(even, odd) > max(even, odd) / 10:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _utf8_share(data: bytes) -> float:
    """Share of the bytes outside ASCII that are valid UTF-8."""
    ascii_free = len(data.translate(None, bytes(range(128))))
    valid = "".join(c for c in data.decode("utf-8", errors="ignore") if c > "\x7f")
    return len(valid.encode()) / ascii_free


def _legacy_guess(data: bytes, path: Path) -> str:
    end = data.rfind(b"\n", 0, GUESS_BYTES) if len(data) > GUESS_BYTES else len(data)
    matches = charset_normalizer.from_bytes(data[:end] if end > 0 else data[:GUESS_BYTES])
    best = matches.best()
    if best is None:
        raise DataError(
            "its encoding cannot be found",
            where=str(path),
            hint="name it with --encoding (utf-8, gb18030, big5 …); a file that is not text has to be converted first",
        )
    if best.encoding in ("gb2312", "gbk"):
        return "gb18030"
    equal = [m for m in matches if (m.chaos, m.coherence) == (best.chaos, best.coherence)]
    names = {name for match in equal for name in (match.encoding, *match.could_be_from_charset)}
    # Short texts in Latin letters fit several code pages equally well; the western one is by far the commonest.
    return "cp1252" if "cp1252" in names else best.encoding


def _bad_byte(data: bytes, error: UnicodeDecodeError, path: Path, name: str) -> DataError:
    line = data.count(b"\n", 0, error.start) + 1
    return DataError(
        f"byte 0x{data[error.start]:02x} is not {name}",
        where=f"{path}:{line}",
        hint="repair that line, or name another encoding with --encoding (gb18030, big5, cp1252 …)",
    )
