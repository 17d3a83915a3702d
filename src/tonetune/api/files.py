"""Predictions for whole files: one row out per row in, in order, other columns kept on request."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tonetune.api.loaded import num_turns_of
from tonetune.api.rows import config_of, text_columns
from tonetune.data.columns import find_text_columns, require_column
from tonetune.data.readers import ReadOptions, read_table
from tonetune.data.readers.encodings import decode
from tonetune.data.readers.table import whole_characters
from tonetune.data.rows import text_of
from tonetune.documents import parse_json
from tonetune.errors import DataError, UsageError
from tonetune.progress import SILENT, Reporter
from tonetune.rundir import whole_file
from tonetune.runtime import TextClassifier
from tonetune.spreadsheets import csv_writer, spreadsheet_safe

SHEET_ROWS = 1 << 20
SHEET_CHARACTERS = 32767
STDIN = "standard input"
OVERLONG = "more cells than columns: quote a text that holds the delimiter"
RESULTS = ("text", "label", "confidence", "scores", "error")


def rows_of_file(
    path: str | Path,
    *,
    run: str | Path,
    text: str | Sequence[str],
    keep: Sequence[str],
    options: ReadOptions,
) -> list[dict[str, Any]]:
    """The columns to keep and the "text" of each row of a file; a row of too many cells also has an "error".

    Text columns that are not named are, for a text of several turns, those of the run.
    Raises DataError for a file or column that cannot be used, UncertainError where the text column is uncertain,
    UsageError for text columns that are too few or too many, and for a column to keep whose name a prediction has too.
    """
    named = text_columns(config_of(run), text, num_turns=num_turns_of(run))
    table = read_table(path, options)
    columns = find_text_columns(table, text=named)
    for name in keep:
        require_column(table, name, option="--keep")
        if name in RESULTS and not (name,) == columns == ("text",):
            refuse_kept(name)
    rows = []
    for cells, line in zip(table.rows, table.lines, strict=True):
        row: dict[str, Any] = {**{name: cells.get(name) for name in keep}, "text": text_of(cells, columns)}
        rows.append(row | {"error": OVERLONG} if line in table.overlong else row)
    return rows


def refuse_kept(name: str) -> None:
    """Raises UsageError for a column to keep whose name a prediction has too."""
    what = f"column {name!r} cannot be kept: the predictions have a column of that name"
    raise UsageError(what, where=f"--keep {name}", hint="give the column another name in the file")


def rows_of_stream(content: bytes, *, plain: bool) -> list[dict[str, Any]]:
    """The "text" of each row of standard input, in any encoding that files may have: JSON lines, or one text a line.

    Raises DataError, naming the line, for what is no row.
    """
    text = decode(content, path=Path(STDIN), encoding=None).text
    lines = text.removesuffix("\n").split("\n") if text else []
    if plain:
        return [{"text": line.removesuffix("\r")} for line in lines]
    return [{"text": _text_of(line, place=f"{STDIN}:{i}")} for i, line in enumerate(lines, start=1) if line.strip()]


def _text_of(line: str, *, place: str) -> object:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError(
            f"not a JSON object: {error}", where=place, hint="for plain lines of text add --lines"
        ) from None
    if not isinstance(row, dict) or "text" not in row:
        raise DataError('no "text" in the row', where=place, hint='each line is an object such as {"text": "…"}')
    text = row["text"]
    return whole_characters(text) if isinstance(text, str) else text


def predict_rows(
    classifier: TextClassifier,
    rows: Sequence[Mapping[str, Any]],
    *,
    abstain: float = 0.0,
    reporter: Reporter = SILENT,
) -> list[dict[str, Any]]:
    """Each row, in order, with label (of a multi-label classifier labels), confidence and scores of its "text".

    The label is None where the confidence is below `abstain`; for a row that has an "error" or a text that cannot be
    scored all three are None, and `error` says why.
    """
    said = "label" if classifier.thresholds is None else "labels"
    if rows and said in rows[0]:
        refuse_kept(said)
    predicted = [{**row, said: None, "confidence": None, "scores": None} | _fault(classifier, row) for row in rows]
    usable = [i for i, row in enumerate(predicted) if "error" not in row]
    if usable:
        texts = [str(rows[i]["text"]) for i in usable]
        with reporter.bar("predicting", len(usable)) as bar:
            logits_NC = classifier.logits(texts, done=bar.advance)
        task = classifier.task
        for i, row in zip(usable, task.rows(texts, task.probs(logits_NC)), strict=True):
            predicted[i] |= row if row["confidence"] >= abstain else row | {said: None}
    return predicted


def _fault(classifier: TextClassifier, row: Mapping[str, Any]) -> dict[str, Any]:
    """Why a row cannot be scored, as its "error"; nothing for one that can."""
    if "error" in row:
        return {"error": row["error"]}
    try:
        classifier.cleaned("" if row["text"] is None else row["text"], place="text")
    except DataError as error:
        return {"error": error.what}
    return {}


def check_format(path: Path, rows: Sequence[Mapping[str, Any]] = ()) -> None:
    """Raises UsageError for an ending that predictions are not written in, and for rows that do not fit a sheet."""
    if path.suffix not in WRITERS:
        raise UsageError(
            f"predictions are written as {' or '.join(WRITERS)}, not {path.suffix or 'without an ending'}",
            where=f"--to {path}",
        )
    longest = max((len(cell) for row in rows for cell in row.values() if isinstance(cell, str)), default=0)
    if path.suffix == ".xlsx" and (len(rows) >= SHEET_ROWS or longest >= SHEET_CHARACTERS):
        raise UsageError(
            f"{len(rows):,} rows with texts of up to {longest:,} characters do not fit a sheet, which takes fewer than "
            f"{SHEET_ROWS:,} rows and {SHEET_CHARACTERS:,} characters",
            where=f"--to {path}",
            hint="write .csv or .jsonl",
        )


def write_predictions(path: Path, rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    """Write rows by the file's ending: JSON lines, or as CSV or a sheet one column per label's score.

    Cells that a spreadsheet would take for formulas are made harmless. Raises UsageError for another ending, DiskError
    where the file cannot be written.
    """
    check_format(path)
    mode, write = WRITERS[path.suffix]
    with whole_file(path, mode) as file:
        write(file, rows, labels)


def _write_jsonl(file: IO[str], rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_csv(file: IO[str], rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    csv_writer(file).writerows(_cells(rows, labels))


def _write_xlsx(file: IO[bytes], rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    for cells in _cells(rows, labels):
        sheet.append([ILLEGAL_CHARACTERS_RE.sub("\ufffd", c) if isinstance(c, str) else c for c in cells])
    book.save(file)


def _cells(rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> Iterator[list[object]]:
    """The header and the rows of a table of predictions."""
    said = "label" if not rows or "label" in rows[0] else "labels"
    extra = [name for name in (rows[0] if rows else {}) if name not in (*RESULTS, said)]
    scores = [f"score_{label}" for label in labels]
    yield [spreadsheet_safe(name) for name in (*extra, "text", said, "confidence", *scores, "error")]
    for row in rows:
        cells = [*(row[name] for name in extra), row["text"], _in_one_cell(row[said]), row["confidence"]]
        cells += [row["scores"][label] for label in labels] if row["scores"] else [None] * len(labels)
        cells.append(row.get("error"))
        yield [spreadsheet_safe(cell) if isinstance(cell, str) else cell for cell in cells]


def _in_one_cell(said: str | Sequence[str] | None) -> str | None:
    """A label as it is; several as a list in JSON, which says also that there are none."""
    return said if said is None or isinstance(said, str) else json.dumps(said, ensure_ascii=False)


WRITERS: Mapping[str, tuple[str, Callable[[IO[Any], Sequence[dict[str, Any]], Sequence[str]], None]]] = {
    ".csv": ("w", _write_csv),
    ".xlsx": ("wb", _write_xlsx),
    ".jsonl": ("w", _write_jsonl),
}
"""How predictions are written, by the file's ending: the mode that the file is opened in, and the function."""
