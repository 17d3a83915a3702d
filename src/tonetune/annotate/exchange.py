"""Rows for annotation tools and back: Label Studio's JSON, doccano's JSON lines, and any file of labelled rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.data.columns import AUTO
from tonetune.data.split_files import read_labelled
from tonetune.documents import parse_json
from tonetune.errors import DataError, UsageError
from tonetune.rundir import write_json, write_jsonl


@dataclass(frozen=True)
class Annotation:
    """What one annotator said of one text; `label` is None where the text was asked and not, or not yet, labelled."""

    text: str
    label: str | None
    annotator: str
    origin: str


def write_questions(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to label: Label Studio tasks to a .json file, doccano's rows to a .jsonl file.

    What a row has beside its "text" travels along as data that neither tool shows to the annotator by itself. Raises
    UsageError for another ending, DiskError.
    """
    if path.suffix == ".json":
        write_json(path, [{"data": dict(row)} for row in rows])
    elif path.suffix == ".jsonl":
        write_jsonl(path, ({**row, "label": []} for row in rows))
    else:
        raise UsageError(
            f"rows to label are written as .json (Label Studio) or .jsonl (doccano), not {path.suffix or 'no ending'}",
            where=str(path),
        )


def read_annotations(path: str | Path, *, text: str | Sequence[str] = AUTO, label: str = AUTO) -> list[Annotation]:
    """The annotations in a file: an export of Label Studio or doccano, or labelled rows of one annotator.

    `text` and `label` name the columns of labelled rows; an export needs no names. The annotator is who Label Studio
    says it was, else the file's name. Raises DataError for a file that cannot be read and for a text with several
    labels.
    """
    path = Path(path).expanduser()
    exported = read_export(path)
    if exported is not None:
        return exported
    examples = read_labelled([path], text=text, label=label)
    return [Annotation(e.text, e.label if e.labels else None, path.stem, e.origin) for e in examples]


def read_export(path: str | Path) -> list[Annotation] | None:
    """The annotations in an export of Label Studio or doccano; None for a file that is neither.

    What was written to be asked is such an export, without labels. Raises DataError as `read_annotations` does.
    """
    path = Path(path).expanduser()
    rows = _json_rows(path)
    if rows and all("data" in row for row in rows):
        return [annotation for i, row in enumerate(rows) for annotation in _of_task(row, path, i)]
    if rows and all(isinstance(row.get("label"), list) and isinstance(row.get("text"), str) for row in rows):
        return [
            Annotation(
                row["text"], _only(row["label"], f"{path}:{i}"), path.stem, str(row.get("origin", f"{path}:{i}"))
            )
            for i, row in enumerate(rows, start=1)
        ]
    return None


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """The objects in a JSON array or JSON lines; nothing for another kind of file, or one that is damaged."""
    if path.suffix not in (".json", ".jsonl"):
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [line for line in text.split("\n") if line.strip()]
        document = parse_json(text) if path.suffix == ".json" else [parse_json(line) for line in lines]
    except (OSError, ValueError):  # the reader of labelled rows says what is wrong with it
        return []
    return document if isinstance(document, list) and all(isinstance(row, dict) for row in document) else []


def _of_task(task: Mapping[str, Any], path: Path, number: int) -> Iterable[Annotation]:
    """The annotations of one Label Studio task; one without a label where there is none."""
    place = f"{path}: task {task.get('id', number + 1)}"
    data = task["data"]
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise DataError('the task has no "text"', where=place, hint="name the text field of the project text")
    origin = str(data.get("origin", place))
    try:
        given = [a for a in task.get("annotations") or [] if not a.get("was_cancelled")]
        choices = [
            [
                choice
                for item in annotation.get("result") or []
                if item.get("type") == "choices"
                for choice in item["value"]["choices"]
            ]
            for annotation in given
        ]
    except (KeyError, TypeError, AttributeError) as error:
        hint = "export it again, as JSON"
        raise DataError(f"the annotations are not Label Studio's: {error!r}", where=place, hint=hint) from error
    for annotation, chosen in zip(given, choices, strict=True):
        yield Annotation(data["text"], _only(chosen, place), _person(annotation.get("completed_by")), origin)
    if not given:
        yield Annotation(data["text"], None, path.stem, origin)


def _person(completed_by: Any) -> str:
    return str(completed_by.get("email", completed_by.get("id")) if isinstance(completed_by, dict) else completed_by)


def _only(labels: Sequence[Any], place: str) -> str | None:
    if len(labels) > 1:
        raise DataError(
            f"one label a text is expected, found {len(labels)}: {', '.join(map(str, labels))}",
            where=place,
            hint="let annotators choose one label",
        )
    return str(labels[0]) if labels else None
