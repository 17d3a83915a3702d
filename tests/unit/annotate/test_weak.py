"""Labelling functions: every problem of a file at once with its line, votes where words are, counts by definition."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tonetune.annotate.label_model import ABSTAINED
from tonetune.annotate.weak import LabellingFunctions, WeakLabels, read_rules
from tonetune.data.example import Example
from tonetune.errors import ConfigError

RULES = """\
functions:
  - {name: anger words, label: anger, words: [滚, fed up, 怒]}
  - {name: laughter, label: joy, regex: '(ha){2,}|哈哈'}
  - {name: own, lexicon: own.tsv, labels: {乐: joy, 怒: anger}}
  - {name: model, zero_shot: demo, confidence: 0.8}
"""


@pytest.fixture
def functions(tmp_path: Path) -> LabellingFunctions:
    (tmp_path / "own.tsv").write_text("开心\t乐\n生气\t怒\n难过\t哀\n", encoding="utf-8")
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    return read_rules(tmp_path / "rules.yaml")


def model(base: str, labels: Sequence[str], texts: Sequence[str]) -> np.ndarray:
    """Sure of joy where a text has an exclamation mark."""
    assert base == "demo" and list(labels) == ["anger", "joy"]
    return np.array([[0.1, 0.9] if "!" in text else [0.6, 0.4] for text in texts])


def test_functions_vote_where_they_find_something(functions: LabellingFunctions) -> None:
    texts = ["I am Fed Up", "fedup 滚吧", "哈哈 开心", "HAHA, 生气!", "难过", "nothing here!"]
    joy, anger, no = 1, 0, ABSTAINED
    assert functions.label_set.names == ("anger", "joy")
    assert functions.votes(texts, model).tolist() == [
        [anger, no, no, no],
        [anger, no, no, no],
        [no, joy, joy, no],
        [no, joy, anger, joy],
        [no, no, no, no],
        [no, no, no, joy],
    ]


def test_shares_follow_their_definitions(functions: LabellingFunctions) -> None:
    votes = functions.votes(["滚", "哈哈 开心", "哈哈 生气", "难过", "哈哈 滚"], model)
    document = WeakLabels.estimate(functions, votes).as_dict()
    assert {key: document[key] for key in ("texts", "coverage", "overlaps", "conflicts")} == {
        "texts": 5, "coverage": 4 / 5, "overlaps": 3 / 5, "conflicts": 2 / 5
    }  # fmt: skip
    own = document["functions"][2]
    assert own["name"] == "own" and own["labels"] == ["anger", "joy"] and 0 < own["accuracy"] < 1
    assert (own["coverage"], own["overlaps"], own["conflicts"]) == (2 / 5, 2 / 5, 1 / 5)


def test_rows_come_in_order_with_probabilities_and_no_label_below_the_threshold(functions: LabellingFunctions) -> None:
    texts = ["滚", "哈哈 开心", "难过"]
    found = WeakLabels.estimate(functions, functions.votes(texts, model))
    rows = found.rows([Example(text, (), f"a.csv:{i}") for i, text in enumerate(texts)], threshold=0.8)
    assert [(row["text"], row["label"], row["origin"]) for row in rows] == [
        ("滚", None, "a.csv:0"), ("哈哈 开心", "joy", "a.csv:1"), ("难过", None, "a.csv:2")
    ]  # fmt: skip
    for row in rows:
        assert sum(row["scores"].values()) == pytest.approx(1) and row["confidence"] == max(row["scores"].values())
    assert [row["label"] for row in found.rows([Example(t, (), "") for t in texts], threshold=0.0)] == [
        "anger", "joy", None
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("functions: []", 1, "at least 1 item"),
        ("functions:\n  - {name: a, label: x}\n  - {name: b, label: y, words: [z]}", 2, "one of words, regex"),
        ("functions:\n  - {name: a, label: x, words: [w], regex: r}", 2, "words and regex"),
        ("functions:\n  - {name: a, regex: r}", 2, "regex needs label"),
        ("functions:\n  - {name: a, lexicon: vader}", 2, "lexicon needs labels"),
        ("functions:\n  - {name: a, label: x, regex: '('}", 2, "regex cannot be read"),
        ("functions:\n  - {name: a, label: x, word: [w]}", 2, "not permitted"),
        ("functions:\n  - {name: a, label: x, words: [w]}", 1, "two labels at least"),
        ("functions:\n  - {name: a, zero_shot: demo}", 1, "two labels at least"),
        ("functions:\n  - {name: a, label: x, words: [w]}\n  - {name: a, label: y, words: [w]}", 3, "two functions"),
        ("labels: [x, y]\nfunctions:\n  - {name: a, label: z, words: [w]}", 3, "'z' is not one of x, y"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=what) as error:
        read_rules(path)
    assert f"rules.yaml:{line}" in str(error.value)


def test_several_problems_are_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("functions:\n  - {name: a, regex: '('}\n  - {name: b, lexicon: vader}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_rules(path)
    assert len(error.value.problems) == 2
