"""Texts one a line: fastText's __label__ lines, "label:text" lines, and plain lines."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tonetune.data.readers.delimited import delimiter_named, read_delimited
from tonetune.data.readers.encodings import Decoded
from tonetune.data.readers.files import require_short_lines, split_lines
from tonetune.data.readers.table import Cells, ReadOptions, Table
from tonetune.errors import DataError

FASTTEXT_LABEL = re.compile(r"(?:^|(?<=\s))__label__(\S+)\s*")
LABEL_COLON = re.compile(r"\s*([^\s:：]{1,20}) ?[:：]\s*(\S.*)")
COLON = re.compile("[:：]")
COLONS = (":", "：")
LABEL_ROWS = 3  # lines of a label, on average, that show that what stands before the colon is one
MOST_LABELS = 30

Lines = Sequence[tuple[int, str]]


def read_lines(decoded: Decoded, *, path: Path, options: ReadOptions) -> Table:
    """A table from lines of text, with the columns "text" and, where the lines say it, "label" or "labels".

    A delimiter that is named decides: a colon separates the label from the text, "none" leaves lines as they are, any
    other makes it a delimited file. Beside a file of labels lines are plain. Otherwise they are fastText's where most
    have a __label__, cells where all have the same number of tabs, "label:text" where all begin with one of a few words
    and a colon, and plain else. Of plain lines a blank one is a row too.
    Raises DataError for a file without lines and for a line without the colon that was named.
    """
    require_short_lines(decoded.text, path)
    lines = list(enumerate(split_lines(decoded.text), start=1))
    filled = [(number, line) for number, line in lines if line.strip()]
    if not filled:
        raise DataError("the file is empty", where=str(path))
    delimiter = None if options.delimiter is None else delimiter_named(options.delimiter)
    format = _format([line for _, line in filled], delimiter, labels_beside=options.label_file is not None)
    if format == "delimited":
        return read_delimited(decoded, path=path, format="txt", options=replace(options, delimiter=delimiter or "\t"))
    kept = lines if format == "lines" else filled
    rows = ROWS[format](kept, path)
    numbers = [number for number, _ in kept]
    return Table(path, format, decoded.encoding, None, list(rows[0]), rows, numbers, notes=decoded.notes)


def _format(lines: Sequence[str], delimiter: str | None, *, labels_beside: bool) -> str:
    if delimiter is not None:
        return "label:text" if delimiter in COLONS else "delimited" if delimiter else "lines"
    if labels_beside:
        return "lines"
    if sum(1 for line in lines if FASTTEXT_LABEL.search(line)) > len(lines) / 2:
        return "fasttext"
    num_tabs = lines[0].count("\t")
    if num_tabs and all(line.count("\t") == num_tabs for line in lines):
        return "delimited"
    return "label:text" if _begin_with_labels(lines) else "lines"


def _begin_with_labels(lines: Sequence[str]) -> bool:
    most = min(MOST_LABELS, len(lines) / LABEL_ROWS)
    names: set[str] = set()
    for line in lines:
        match = LABEL_COLON.fullmatch(line)
        if match is None or len(names := names | {match[1]}) > most:
            return False
    return True


def _plain(lines: Lines, path: Path) -> list[Cells]:
    return [{"text": line} for _, line in lines]


def _label_text(lines: Lines, path: Path) -> list[Cells]:
    rows: list[Cells] = []
    for number, line in lines:
        label, *text = COLON.split(line, maxsplit=1)
        if not text:
            where, hint = f"{path}:{number}", "each line is label:text"
            raise DataError(f"no colon in {line[:40]!r}", where=where, hint=hint)
        rows.append({"text": text[0].strip(), "label": label.strip()})
    return rows


def _fasttext(lines: Lines, path: Path) -> list[Cells]:
    labels = [FASTTEXT_LABEL.findall(line) for _, line in lines]
    texts = [FASTTEXT_LABEL.sub("", line).strip() for _, line in lines]
    if all(len(names) <= 1 for names in labels):
        return [{"text": text, "label": next(iter(names), None)} for text, names in zip(texts, labels, strict=True)]
    cells = [json.dumps(names, ensure_ascii=False) if names else None for names in labels]
    return [{"text": text, "labels": cell} for text, cell in zip(texts, cells, strict=True)]


ROWS: Mapping[str, Callable[[Lines, Path], list[Cells]]] = {
    "lines": _plain,
    "label:text": _label_text,
    "fasttext": _fasttext,
}
