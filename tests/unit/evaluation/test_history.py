"""Laws of the learning history: every text is of one kind, by what happened to it."""

from tonetune.evaluation.history import EXAMPLES, history, steps_of
from tonetune.rundir import write_jsonl


def rows(*right):
    return [
        {"text": f"text {i}", "gold": "a", "label": "a" if r else "b", "confidence": 0.5 + i / 100}
        for i, r in enumerate(right)
    ]


def test_each_text_is_of_one_kind():
    found = history({5: rows(1, 0, 1, 0, 0, 1), 10: rows(1, 0, 1, 1, 0, 0), 15: rows(1, 1, 0, 0, 0, 1)})
    names = {
        kind: [row["text"] for row in found[kind]["examples"]] for kind in ("always", "learnt", "forgotten", "never")
    }
    assert names == {
        "always": ["text 5", "text 0"],  # text 5 was wrong in between
        "learnt": ["text 1"],
        "forgotten": ["text 3", "text 2"],
        "never": ["text 4"],
    }
    assert sum(found[kind]["count"] for kind in names) == 6 and found["steps"] == [5, 10, 15]


def test_examples_are_few_and_the_surest_first():
    found = history({1: rows(*[0] * 30), 2: rows(*[0] * 30)})["never"]
    assert found["count"] == 30 and len(found["examples"]) == EXAMPLES
    assert found["examples"][0]["text"] == "text 29"


def test_one_validation_is_no_history():
    assert history({}) is None and history({5: rows(1)}) is None


def test_steps_are_read_in_order_up_to_the_one_that_was_kept(tmp_path):
    for step in (100, 20, 3):
        write_jsonl(tmp_path / f"step-{step}.jsonl", rows(1, 0))
    (tmp_path / "predictions.jsonl").write_text("{}", encoding="utf-8")
    assert list(steps_of(tmp_path, until=50)) == [3, 20]
    assert list(steps_of(tmp_path, until=100)) == [3, 20, 100]
