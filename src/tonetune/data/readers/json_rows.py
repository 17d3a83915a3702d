"""JSON lines and JSON arrays: nested fields by dotted path, and the line of every row."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tonetune.data.readers.encodings import Decoded
from tonetune.data.readers.files import require_short_lines, split_lines
from tonetune.data.readers.table import Cells, Table, flat_cells
from tonetune.errors import DataError, UncertainError, listed

BLANK = re.compile(r"[ \t\r\n]*")


def read_json_rows(decoded: Decoded, *, path: Path) -> Table:
    """A table from one JSON object a line, from one array of objects, or from the array in one object around it.

    A nested field becomes a column named by its dotted path (`data.text`, and `turns.2.text` in a list of objects).
    Numbers, true and false become the text that JSON writes for them, null becomes None, another list becomes its JSON
    text; half a surrogate pair becomes U+FFFD. A row
    holds its own fields only, so that a thousand keys which few rows share cost no more than the file.
    Raises DataError, with the line, for what is not JSON or no object, for a number of thousands of digits
    or brackets nested too deeply, and for a file without rows; UncertainError for an object around several arrays.
    """
    text = decoded.text
    begin = _array_begin(text, path)
    values = list(_line_values(text, path) if begin is None else _array_values(text, path, begin))
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
        except (ValueError, RecursionError) as error:
            raise _unreadable(error, line, path) from error
        columns.update(dict.fromkeys(rows[-1]))
    return Table(
        path=path,
        format="jsonl" if begin is None else "json",
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


def _array_begin(text: str, path: Path) -> int | None:
    """Where the array of the rows begins: the text itself, or the one array of objects in an object around it, which
    has many lines or stands in a .json file; None for an object a line.

    Raises UncertainError where the object is around several arrays, DataError where it is around none.
    """
    start = _skip_blank(text, 0)
    if text[start : start + 1] == "[":
        return start
    one_line = _parses(text[start:].split("\n", 1)[0])
    if one_line and ".json" not in path.suffixes:
        return None
    try:
        arrays, end = _arrays(text, start)
    except (ValueError, IndexError, RecursionError):  # what is wrong is said by who reads objects a line
        return None
    if text[end:].strip() or (one_line and not arrays):
        return None
    if not arrays:
        raise DataError(
            "the file is one object, and no field of it is a list of objects",
            where=str(path),
            hint='rows look like [{"text": "…", "label": "…"}, …]; pandas writes them with to_json(orient="records")',
        )
    if len(arrays) > 1:
        raise UncertainError(
            f"which list holds the rows? candidates: {listed(arrays)}",
            candidates=[{"role": "rows", "rows": name} for name in arrays],
            where=str(path),
            hint="write that list to a file of its own",
        )
    return next(iter(arrays.values()))


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _arrays(text: str, start: int, prefix: str = "") -> tuple[dict[str, int], int]:
    """Where each array of objects begins in the object at `start`, by its dotted path, and where that object ends.

    Raises ValueError or IndexError where there is no whole object.
    """
    decoder, arrays = json.JSONDecoder(), dict[str, int]()
    position = _skip_blank(text, start + 1)
    while text[start] == "{" and text[position] != "}":
        name, position = decoder.raw_decode(text, position)
        begin = _behind(":", text, position)
        if text[begin] == "{":
            inner, position = _arrays(text, begin, f"{prefix}{name}.")
            arrays |= inner
        else:
            value, position = decoder.raw_decode(text, begin)
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                arrays[f"{prefix}{name}"] = begin
        position = _skip_blank(text, position)
        if text[position] != "}":
            position = _behind(",", text, position)
    return arrays, position + 1


def _behind(mark: str, text: str, position: int) -> int:
    """The position behind a mark and the blanks around it. Raises ValueError where another character stands there."""
    return _skip_blank(text, text.index(mark, position := _skip_blank(text, position), position + 1) + 1)


def _array_values(text: str, path: Path, begin: int) -> Iterator[tuple[int, object]]:
    """Each element of the array at `begin` with its line; they are decoded one by one, so that the lines are known."""
    decoder = json.JSONDecoder()
    around = text[_skip_blank(text, 0)] == "{"
    position, line, counted = begin + 1, 1, 0
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
    if not around and text[position + 1 :].strip():
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
    """The error for JSON that is well-formed and still too much: a huge number or name, or endless nesting."""
    return DataError(
        "brackets are nested too deeply" if isinstance(error, RecursionError) else f"it holds too much: {error}",
        where=f"{path}:{line}",
        hint="repair or remove this row",
    )
