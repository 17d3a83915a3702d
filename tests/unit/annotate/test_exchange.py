"""Files of annotation tools: what is written comes back with labels, whichever tool it went through."""

import json
from pathlib import Path
from typing import Any

import pytest

from tonetune.annotate.exchange import Annotation, read_annotations, write_questions
from tonetune.errors import DataError, UsageError

ROWS = [
    {"text": "so happy 😀", "origin": "pool.csv:2", "suggested": "joy", "confidence": 0.4},
    {"text": "第二行\n还有", "origin": "pool.csv:3", "suggested": "sad", "confidence": 0.3},
]


def as_label_studio(path: Path, labels: list[list[tuple[Any, str | None]]]) -> None:
    """What Label Studio exports after people labelled the tasks in `path`: for each task who said what."""
    tasks = json.loads(path.read_text(encoding="utf-8"))
    for i, (task, said) in enumerate(zip(tasks, labels, strict=True)):
        task["id"] = 100 + i
        task["annotations"] = [
            {
                "completed_by": who,
                "was_cancelled": False,
                "result": [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [label]}}]
                if label
                else [],
            }
            for who, label in said
        ]
    path.write_text(json.dumps(tasks), encoding="utf-8")


def test_label_studio_gives_back_who_said_what(tmp_path: Path) -> None:
    path = tmp_path / "ask.json"
    write_questions(path, ROWS)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert [task["data"]["text"] for task in tasks] == [row["text"] for row in ROWS]
    assert all(set(task) == {"data"} for task in tasks)  # no prediction: a suggestion that shows leads the annotator
    as_label_studio(path, [[(1, "joy"), ({"id": 2, "email": "b@c.d"}, "sad")], [(1, None)]])
    assert read_annotations(path) == [
        Annotation("so happy 😀", "joy", "1", "pool.csv:2"),
        Annotation("so happy 😀", "sad", "b@c.d", "pool.csv:2"),
        Annotation("第二行\n还有", None, "1", "pool.csv:3"),
    ]


def test_cancelled_annotations_are_none_and_several_labels_an_error(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    write_questions(path, ROWS[:1])
    as_label_studio(path, [[(1, "joy")]])
    (task,) = json.loads(path.read_text(encoding="utf-8"))
    task["annotations"][0]["was_cancelled"] = True
    path.write_text(json.dumps([task]), encoding="utf-8")
    assert [a.label for a in read_annotations(path)] == [None]
    task["annotations"][0] |= {"was_cancelled": False}
    task["annotations"][0]["result"][0]["value"]["choices"] = ["joy", "sad"]
    path.write_text(json.dumps([task]), encoding="utf-8")
    with pytest.raises(DataError, match="found 2: joy, sad") as error:
        read_annotations(path)
    assert str(error.value.where).endswith("export.json: task 100")
    path.write_text(json.dumps([{"data": {"review": "x"}}]), encoding="utf-8")
    with pytest.raises(DataError, match='no "text"'):
        read_annotations(path)


@pytest.mark.parametrize("end", ["", "\n"])
def test_doccano_gives_back_its_labels(tmp_path: Path, end: str) -> None:
    path = tmp_path / "ann.jsonl"
    write_questions(path, ROWS)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["label"] for row in rows] == [[], []]
    rows[1]["label"] = ["sad"]
    lines = [json.dumps({"id": i, **row, "Comments": []}) for i, row in enumerate(rows, start=5)]
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    assert read_annotations(path) == [
        Annotation("so happy 😀", None, "ann", "pool.csv:2"),
        Annotation("第二行\n还有", "sad", "ann", "pool.csv:3"),
    ]
    path.write_text(json.dumps({"text": "a", "label": ["x", "y"]}), encoding="utf-8")
    with pytest.raises(DataError, match="one label a text"):
        read_annotations(path)


def test_any_file_of_labelled_rows_is_one_annotator(tmp_path: Path) -> None:
    table = tmp_path / "bob.csv"
    table.write_text("text,label\nso good today,joy\nso bad today,\nit was so bad,sad\n", encoding="utf-8")
    assert [(a.label, a.annotator, a.origin) for a in read_annotations(table)] == [
        ("joy", "bob", "bob.csv:2"), (None, "bob", "bob.csv:3"), ("sad", "bob", "bob.csv:4")
    ]  # fmt: skip
    lines = tmp_path / "eve.jsonl"
    lines.write_text('{"text": "so good today", "label": "joy"}\n{"text": "so bad", "label": "sad"}', encoding="utf-8")
    assert [a.label for a in read_annotations(lines)] == ["joy", "sad"]


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("[{", encoding="utf-8")
    for path in (broken, tmp_path / "absent.json"):
        with pytest.raises(DataError) as error:
            read_annotations(path)
        assert path.name in str(error.value.where)
    with pytest.raises(UsageError, match=r"\.json .*or \.jsonl"):
        write_questions(tmp_path / "ask.csv", ROWS)
