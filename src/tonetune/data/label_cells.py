"""What the cells of label columns say: one name, several names in a cell, or for each column whether it applies."""

from collections.abc import Collection, Iterable

from tonetune.documents import parse_json
from tonetune.errors import DataError

SEPARATORS = (",", ";", "|", "/", "，", "；", "、")
LIST = "json"
"""The separator of cells that are lists."""

OWN_NAME = "its name"
TRUTHS = {
    **{"1": "0", "true": "false", "t": "f", "yes": "no", "y": "n", "on": "off", "x": "-", "+": "-"},
    **{"是": "否", "有": "无", "对": "错", "真": "假", "✓": "✗", "✔": "✘", "√": "×"},
}
"""Words for true, each with the word for false that goes with it; a blank is false too."""


def find_separator(values: Collection[str]) -> str | None:
    """What separates the labels in a cell: fewer distinct pieces than distinct cells show that cells combine them."""
    distinct = set(values)
    if distinct and all(v.startswith("[") and v.endswith("]") for v in distinct):
        return LIST
    for separator in SEPARATORS:
        if any(separator in v for v in distinct):
            pieces = {piece for v in distinct for piece in pieces_of(v, separator)}
            if len(pieces) < len(distinct):
                return separator
    return None


def pieces_of(cell: str, separator: str) -> tuple[str, ...]:
    """The labels of a cell, each once: between separators, or the items of a list as JSON or Python writes it."""
    if separator != LIST:
        items: Iterable[object] = cell.split(separator)
    else:
        try:
            items = parse_json(cell)
        except ValueError:
            items = (piece.strip().strip("'\"") for piece in cell.strip()[1:-1].split(","))
    return tuple(dict.fromkeys(piece for item in items if (piece := str(item).strip())))


def truth_style(values: Collection[str], column: str) -> str | None:
    """The word for true where a column's cells, blanks left out, say true or false in one way; None where not.

    That word can be the name of the column: its style is OWN_NAME.
    """
    found = {_folded(value) for value in values}
    styles = (*((true, {true, false}) for true, false in TRUTHS.items()), (OWN_NAME, {_folded(column), "0"}))
    return next((style for style, words in styles if found and found <= words), None)


def is_true(cell: str, column: str, *, origin: str | None) -> bool:
    """Whether a cell says that the label of its column applies.

    Raises DataError, with its origin, for a cell that is neither true nor false.
    """
    word = _folded(cell)
    if word in TRUTHS or word == _folded(column):
        return True
    if not word or is_false(cell):
        return False
    raise DataError(
        f"{cell.strip()!r} in column {column!r} says neither true nor false",
        where=origin,
        hint=f"write one of {' '.join(TRUTHS)} or {' '.join(dict.fromkeys(TRUTHS.values()))}, or name one label column",
    )


def is_false(cell: str) -> bool:
    """Whether a cell is a word for false; a blank is none."""
    return _folded(cell) in TRUTHS.values()


def _folded(cell: str) -> str:
    folded = cell.strip().casefold()
    return folded.removesuffix(".0") if folded in ("0.0", "1.0") else folded
