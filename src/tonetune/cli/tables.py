"""Tables for a person at a terminal. Texts and labels come from files: control characters are spelled out."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tonetune.report.text import percent, visible


def _cell(value: object) -> Text:
    """A cell that shows what it holds: no markup, no terminal escapes."""
    return Text(visible("–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, right_from: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="dim")
    for i, column in enumerate(columns):
        table.add_column(Text(visible(column)), justify="right" if i >= right_from else "left")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def inspection_tables(document: dict[str, Any]) -> list[Any]:
    """What `inspect` shows of its document."""
    counts = ("rows", "usable", "empty_text", "missing_label", "duplicates", "contradictions")
    files = [[f["path"], f["format"], f["encoding"], *(f[name] for name in counts)] for f in document["files"]]
    parts: list[Any] = [
        _table("files", ["file", "format", "encoding", *(c.replace("_", " ") for c in counts)], files, right_from=3)
    ]
    label = document["label_column"]
    shown = ", ".join(label) if isinstance(label, list) else label
    parts.append(f"text: {document['text_column'] or '?'}   label: {shown or '?'}   task: {document['task'] or '?'}")
    if document["labels"]:
        parts.append(_table("labels", ["label", "rows"], list(document["labels"].items())))
    if document["problems"]:
        rows = [[p["code"], p["count"], p["example"], p["advice"]] for p in document["problems"]]
        parts.append(_table("problems", ["problem", "count", "example", "what to do"], rows, right_from=9))
    if "candidates" in document:
        rows = [[c["role"], c["column"], c["distinct"], c["mean_characters"]] for c in document["candidates"]]
        parts.append(_table("candidates", ["for", "column", "distinct", "mean characters"], rows, right_from=2))
    return [visible(part) if isinstance(part, str) else part for part in parts]


def preparation_tables(document: dict[str, Any]) -> list[Any]:
    """What `prepare` shows of data.json."""
    splits = document["splits"]
    labels = list(next(iter(splits.values()))["labels"])
    rows = [[label, *(split["labels"][label] for split in splits.values())] for label in labels]
    rows.append(["all", *(split["rows"] for split in splits.values())])
    parts: list[Any] = [_table("rows", ["label", *splits], rows)]
    if document["dropped"]:
        parts.append(_table("dropped", ["reason", "rows"], list(document["dropped"].items())))
    return parts


def evaluation_tables(report: dict[str, Any]) -> list[Any]:
    """What `evaluate` shows of a split's report."""
    tuned = report["tuned"]
    lines = [
        f"{name}: {percent(tuned[key])} (95 % interval {percent(tuned[f'{key}_ci95'][0])} to "
        f"{percent(tuned[f'{key}_ci95'][1])})"
        for name, key in (("accuracy", "accuracy"), ("macro-F1", "macro_f1"))
    ]
    per_label = [
        [label, *(f"{row[key]:.3f}" for key in ("precision", "recall", "f1")), row["support"]]
        for label, row in report["per_label"].items()
    ]
    confusion = [[label, *counts] for label, counts in zip(report["labels"], report["confusion"], strict=True)]
    return [
        f"{report['split']}: {tuned['n']:,} texts",
        *lines,
        f"expected calibration error: {percent(report['ece'])} at temperature {report['temperature']:.2f}",
        _table("per label", ["label", "precision", "recall", "F1", "texts"], per_label),
        _table("confusion, true classes as rows", ["", *report["labels"]], confusion),
    ]
