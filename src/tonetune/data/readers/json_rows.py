"""JSON lines and JSON arrays: nested fields by dotted path, and the line of every row."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tonetune.data.readers.encodings import Decoded
from tonetune.data.readers.files import require_short_lines, split_lines
from tonetune.data.readers.table import Cells, Table, flat_cells
from tonetune.errors import DataError

BLANK = re.compile(r"[ \t\r\n]*")


def read_json_rows(decoded: Decoded, *, path: Path) -> Table:
    """A table from one JSON object a line, or from one array of objects, whichever the text holds.

    A nested field becomes a column named by its dotted path (`data.text`). Numbers, true and false become the text that
    JSON writes for them, null becomes None, a list becomes its JSON text; half a surrogate pair becomes U+FFFD. A row
    holds its own fields only, so that a thousand keys which few rows share cost no more than the file.
    Raises DataError, with the line, for what is not JSON or no object, for a number of thousands of digits
    or brackets nested too deeply, and for a file without rows.
    """
    text = decoded.text
    is_array = text.lstrip().startswith("[")
    values = list(_array_values(text, path) if is_array else _line_values(text, path))
    if not values:
        raise DataError("the file has no rows", where=str(path))
    rows: list[Cells] = []
    columns: dict[str, None] = {}
    for line, value in values:
        if not isinstance(value, dict):
            raise DataError(
                f"expected an object with named fields, found {json.dumps(value, ensure_ascii=False)[:60]}",
                where=f"{path}:{line}",
                hint='each row looks like {"text": "…", "label": "…"}',
            )
        try:
            rows.append(dict(flat_cells(value)))
        except RecursionError as error:
            raise _unreadable(error, line, path) from error
        columns.update(dict.fromkeys(rows[-1]))
    return Table(
        path=path,
        format="json" if is_array else "jsonl",
        encoding=decoded.encoding,
        delimiter=None,
        columns=list(columns),
        rows=rows,
        lines=[line for line, _ in values],
        notes=decoded.notes,
    )


def _line_values(text: str, path: Path) -> Iterator[tuple[int, object]]:
    require_short_lines(text, path)
    for number, line in enumerate(split_lines(text), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise _broken(error.msg, error.colno, number, path) from error
            except (ValueError, RecursionError) as error:
                raise _unreadable(error, number, path) from error


def _array_values(text: str, path: Path) -> Iterator[tuple[int, object]]:
    """Each element of the array with its line; the elements are decoded one by one, so that the lines are known."""
    decoder = json.JSONDecoder()
    position, line, counted = text.index("[") + 1, 1, 0
    while True:
        position = _skip_blank(text, position)
        if text[position : position + 1] == "]":
            break
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise _broken(error.msg, error.colno, error.lineno, path) from error
        except (ValueError, RecursionError) as error:
            raise _unreadable(error, line, path) from error
        yield line, value
        position = _skip_blank(text, position)
        if (mark := text[position : position + 1]) == ",":
            position += 1
        elif mark != "]":
            raise _broken("Expecting ',' or ']'", 1, text.count("\n", 0, position) + 1, path)
    if text[position + 1 :].strip():
        raise _broken("Extra data after the array", 1, text.count("\n", 0, position) + 1, path)


def _skip_blank(text: str, position: int) -> int:
    match = BLANK.match(text, position)
    return match.end() if match else position


def _broken(reason: str, column: int, line: int, path: Path) -> DataError:
    return DataError(
        f"not JSON at character {column} of the line: {reason}",
        where=f"{path}:{line}",
        hint="repair or remove this row; a file is one object a line, or one array of objects",
    )


def _unreadable(error: ValueError | RecursionError, line: int, path: Path) -> DataError:
    """The error for JSON that is well-formed and still too much: a huge number, or endless nesting."""
    return DataError(
        "brackets are nested too deeply" if isinstance(error, RecursionError) else f"a number is too long: {error}",
        where=f"{path}:{line}",
        hint="repair or remove this row",
    )
