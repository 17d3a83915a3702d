"""Predictions for whole files: one row out per row in, in order, other columns kept on request."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tonetune.api.loaded import TextClassifier
from tonetune.data.columns import AUTO, find_columns, require_column
from tonetune.data.readers import Cells, read_table
from tonetune.data.readers.files import decode
from tonetune.data.readers.json_rows import whole_characters
from tonetune.errors import DataError, UsageError
from tonetune.evaluation.calibration import softmax
from tonetune.evaluation.predictions import prediction_rows, spreadsheet_safe
from tonetune.progress import SILENT, Reporter
from tonetune.rundir import whole_file

FORMATS = (".csv", ".jsonl")
STDIN = "standard input"
RESULTS = ("text", "label", "confidence", "scores", "error")


def rows_of_file(path: str | Path, *, text: str, keep: Sequence[str]) -> tuple[list[str | None], list[dict[str, Any]]]:
    """Texts of a file, None where a cell is blank, and for each row the columns to keep.

    Raises DataError for a file or column that cannot be used, or where the text column is uncertain.
    """
    table = read_table(path)
    column = _text_column(table.columns, find_columns(table, text=text, label=AUTO).text)
    if column is None:
        raise find_columns(table, text=text, label=AUTO).uncertainty(table)
    for name in keep:
        require_column(table, name, option="--keep")
        if name in RESULTS and not name == column == "text":
            what = f"column {name!r} cannot be kept: the predictions have a column of that name"
            raise UsageError(what, where=f"--keep {name}", hint="give the column another name in the file")
    return [row[column] for row in table.rows], [_kept(row, keep) for row in table.rows]


def _text_column(columns: Sequence[str], found: str | None) -> str | None:
    return columns[0] if found is None and len(columns) == 1 else found


def _kept(row: Cells, keep: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in keep}


def rows_of_stream(content: bytes, *, plain: bool) -> list[str | None]:
    """Texts of standard input, in any encoding that files may have: JSON lines with "text", or one text a line.

    Raises DataError, naming the line, for what is no row.
    """
    text, _ = decode(content, path=Path(STDIN), encoding=None)
    lines = text.removesuffix("\n").split("\n") if text else []
    if plain:
        return [line.removesuffix("\r") for line in lines]
    return [_text_of(line, place=f"{STDIN}:{i}") for i, line in enumerate(lines, start=1) if line.strip()]


def _text_of(line: str, *, place: str) -> str | None:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(
            f"not a JSON object: {error}", where=place, hint="for plain lines of text add --lines"
        ) from None
    if not isinstance(row, dict) or "text" not in row:
        raise DataError('no "text" in the row', where=place, hint='each line is an object such as {"text": "…"}')
    text = row["text"]
    return whole_characters(text) if isinstance(text, str) else None


def predict_rows(
    classifier: TextClassifier,
    texts: Sequence[str | None],
    kept: Sequence[dict[str, Any]] = (),
    *,
    abstain: float = 0.0,
    reporter: Reporter = SILENT,
) -> list[dict[str, Any]]:
    """One row per text, in order: kept columns, then text, label, confidence and scores.

    `label` is None where the confidence is below `abstain`; a text that cannot be scored has `error` instead.
    """
    rows: list[dict[str, Any]] = [{"text": text} for text in texts]
    usable: list[int] = []
    for i, text in enumerate(texts):
        try:
            classifier.cleaned(text if text is not None else "", place=f"row {i + 1}")
        except DataError as error:
            rows[i] |= {"label": None, "confidence": None, "scores": None, "error": error.what}
        else:
            usable.append(i)
    if usable:
        chosen = [str(texts[i]) for i in usable]
        with reporter.bar("predicting", len(usable)) as bar:
            logits_NC = classifier.logits(chosen, done=bar.advance)
        probs_NC = softmax(logits_NC, classifier.manifest.temperature)
        for i, row in zip(usable, prediction_rows(chosen, probs_NC, classifier.labels), strict=True):
            rows[i] = row if row["confidence"] >= abstain else row | {"label": None}
    return [extra | row for extra, row in zip(kept, rows, strict=True)] if kept else rows


def write_predictions(path: Path, rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    """Write rows as CSV (one column per label's score, formulas made harmless) or JSON lines, by the file's ending.

    Raises UsageError for another ending, DiskError where the file cannot be written.
    """
    with whole_file(path) as file:
        if path.suffix == ".jsonl":
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            _write_csv(file, rows, labels)


def check_format(path: Path) -> None:
    """Raises UsageError for an ending that predictions are not written in."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"predictions are written as {' or '.join(FORMATS)}, not {path.suffix or 'without an ending'}",
            where=f"--to {path}",
        )


def _write_csv(file: IO[str], rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> None:
    extra = [name for name in (rows[0] if rows else {}) if name not in RESULTS]
    scores = [f"score_{label}" for label in labels]
    header = [*extra, "text", "label", "confidence", *scores, "error"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(spreadsheet_safe(name) for name in header)
    for row in rows:
        cells = [*(row[name] for name in extra), row["text"], row["label"], row["confidence"]]
        cells += [row["scores"][label] for label in labels] if row["scores"] else [None] * len(labels)
        cells.append(row.get("error"))
        writer.writerow(spreadsheet_safe(cell) if isinstance(cell, str) else cell for cell in cells)
