"""Predictions for whole files: one row out per row in, in order, other columns kept on request."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tonetune.data.columns import AUTO, find_columns, require_column
from tonetune.data.readers import read_table
from tonetune.data.readers.files import decode
from tonetune.data.readers.json_rows import whole_characters
from tonetune.errors import DataError, UsageError
from tonetune.evaluation.calibration import softmax
from tonetune.evaluation.predictions import prediction_rows, spreadsheet_safe
from tonetune.progress import SILENT, Reporter
from tonetune.rundir import whole_file
from tonetune.runtime import TextClassifier

FORMATS = (".csv", ".jsonl")
STDIN = "standard input"
OVERLONG = "more cells than columns: quote a text that holds the delimiter"
RESULTS = ("text", "label", "confidence", "scores", "error")


def rows_of_file(
    path: str | Path,
    *,
    text: str,
    keep: Sequence[str],
    encoding: str | None,
    delimiter: str | None,
    header: bool,
) -> list[dict[str, Any]]:
    """The columns to keep and the "text" of each row of a file; a row of too many cells also has an "error".

    Raises DataError for a file or column that cannot be used, or where the text column is uncertain, UsageError for a
    column to keep whose name a prediction has too.
    """
    table = read_table(path, encoding=encoding, delimiter=delimiter, header=header)
    columns = find_columns(table, text=text, label=AUTO)
    column = table.columns[0] if columns.text is None and len(table.columns) == 1 else columns.text
    if column is None:
        raise columns.uncertainty(table)
    for name in keep:
        require_column(table, name, option="--keep")
        if name in RESULTS and not name == column == "text":
            what = f"column {name!r} cannot be kept: the predictions have a column of that name"
            raise UsageError(what, where=f"--keep {name}", hint="give the column another name in the file")
    rows = []
    for cells, line in zip(table.rows, table.lines, strict=True):
        row: dict[str, Any] = {**{name: cells.get(name) for name in keep}, "text": cells.get(column)}
        rows.append(row | {"error": OVERLONG} if line in table.overlong else row)
    return rows


def rows_of_stream(content: bytes, *, plain: bool) -> list[dict[str, Any]]:
    """The "text" of each row of standard input, in any encoding that files may have: JSON lines, or one text a line.

    Raises DataError, naming the line, for what is no row.
    """
    text, _ = decode(content, path=Path(STDIN), encoding=None)
    lines = text.removesuffix("\n").split("\n") if text else []
    if plain:
        return [{"text": line.removesuffix("\r")} for line in lines]
    return [{"text": _text_of(line, place=f"{STDIN}:{i}")} for i, line in enumerate(lines, start=1) if line.strip()]


def _text_of(line: str, *, place: str) -> object:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
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
    """Each row, in order, with label, confidence and scores of its "text".

    `label` is None where the confidence is below `abstain`; for a row that has an "error" or a text that cannot be
    scored all three are None, and `error` says why.
    """
    predicted = [{**row, "label": None, "confidence": None, "scores": None} | _fault(classifier, row) for row in rows]
    usable = [i for i, row in enumerate(predicted) if "error" not in row]
    if usable:
        texts = [str(rows[i]["text"]) for i in usable]
        with reporter.bar("predicting", len(usable)) as bar:
            logits_NC = classifier.logits(texts, done=bar.advance)
        probs_NC = softmax(logits_NC, classifier.temperature)
        for i, row in zip(usable, prediction_rows(texts, probs_NC, classifier.labels), strict=True):
            predicted[i] |= row if row["confidence"] >= abstain else row | {"label": None}
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
