"""Bytes of a file: packed or not, missing or not what their name says, each an error that names the file."""

import difflib
import gzip
import hashlib
import io
import stat
import zlib
from pathlib import Path

from tonetune.errors import DataError

GZIP = b"\x1f\x8b"
MODEST_BYTES = 16 << 20
MOST_RATIO = 100  # unpacked to packed bytes of a file that is not modest; texts have 3 to 20
LONGEST_LINE = 10_000_000  # characters
LONGEST_CELL = 1_000_000  # characters: a long novel
SIGNATURES = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF89a": "a GIF picture",
    b"GIF87a": "a GIF picture",
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a zip archive: if it is an Excel workbook, let its name end in .xlsx",
    b"\xd0\xcf\x11\xe0": "a document of Excel or Word 97: save it as .xlsx or .csv",
    b"PAR1\x15": "a Parquet file: let its name end in .parquet",
    b"BZh9": "packed by bzip2: unpack it",
    b"\xfd7zXZ": "packed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"Rar!\x1a": "a rar archive: unpack it",
    b"SQLite format 3\0": "an SQLite database: export the table",
}


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where they are gzip.

    Raises DataError for a missing file (naming files with a similar name), a directory, a file that may not be read
    and a gzip file that is broken or unpacks to what no text does.
    """
    try:
        if stat.S_IFMT(path.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):  # a device may never end
            raise DataError("is a device or a pipe, not a file", where=str(path), hint="save its rows to a file first")
        data = path.read_bytes()
        return _unpacked(data, path) if data.startswith(GZIP) or path.suffix.lower() == ".gz" else data
    except FileNotFoundError:
        raise DataError("no such file", where=str(path), hint=_similar_names(path)) from None
    except IsADirectoryError:
        raise DataError("is a directory, not a file", where=str(path), hint="name the file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"is not a whole gzip file: {error}", where=str(path), hint="fetch or pack it again") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), hint="check its permissions") from error
    except ValueError as error:
        raise DataError(f"no name of a file: {error}", where=ascii(str(path))) from None


def _unpacked(data: bytes, path: Path) -> bytes:
    most = max(MODEST_BYTES, MOST_RATIO * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(most + 1)
    require_modest(len(content), len(data), path)
    return content


def require_modest(num_unpacked: int, num_packed: int, path: Path) -> None:
    """Raises DataError where so many bytes unpack to far more than those of texts do: a bomb, or a mistake."""
    if num_unpacked > max(MODEST_BYTES, MOST_RATIO * num_packed):
        raise DataError(
            f"{num_packed:,} bytes unpack to {num_unpacked:,} or more, over {MOST_RATIO} times as many",
            where=str(path),
            hint="texts do not; where it is no mistake, unpack it and save the rows as .csv",
        )


class Modest:
    """Counts the characters that come out of a file. `add` raises DataError as `require_modest` does."""

    def __init__(self, num_packed: int, path: Path) -> None:
        self._num_packed, self._path, self._num_characters = num_packed, path, 0

    def add(self, num_characters: int) -> None:
        self._num_characters += num_characters
        require_modest(self._num_characters, self._num_packed, self._path)


def _similar_names(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the directory {path.parent} does not exist either; check the path"
    names = sorted(p.name for p in path.parent.iterdir() if p.is_file())
    close = difflib.get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"check the name; {path.parent} holds no similar one"


def require_no_signature(data: bytes, path: Path) -> None:
    """Raises DataError for bytes that begin as those of a known format that is no text."""
    for signature, what in SIGNATURES.items():
        if data.startswith(signature):
            found, _, hint = what.partition(": ")
            hint = hint or "name a file of labelled texts"
            raise DataError(f"the file is not text but {found}", where=str(path), hint=hint)


def require_short_lines(text: str, path: Path) -> None:
    """Raises DataError, with the line, for a line of more than ten million characters."""
    begin = 0
    while begin + LONGEST_LINE < len(text):
        end = text.rfind("\n", begin, begin + LONGEST_LINE + 1)
        if end < 0:
            raise _too_long("line", LONGEST_LINE, f"{path}:{text.count(chr(10), 0, begin) + 1}")
        begin = end + 1


def require_short_cells(cells: list[str | None], where: str) -> None:
    """Raises DataError, with the place, for a cell of more than a million characters."""
    if any(cell is not None and len(cell) > LONGEST_CELL for cell in cells):
        raise _too_long("cell", LONGEST_CELL, where)


def _too_long(what: str, most: int, where: str) -> DataError:
    hint = "a quote that never closes, another delimiter or no line ends? look at its beginning"
    return DataError(f"a {what} of more than {most:,} characters begins here", where=where, hint=hint)


def split_lines(text: str) -> list[str]:
    """The lines of a text, whatever ends them; a line end at the very end begins no further line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def file_sha256(path: Path) -> str:
    """SHA-256 of a file; of a directory, over the names and contents of its files in order."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        if file != path:
            digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
