"""The README of an exported bundle: its lines run, and say of several labels what their thresholds say."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tonetune.bundle import Bundle
from tonetune.evaluation.multi_label import MultiLabel
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.llamacpp import LABEL_IDS
from tonetune.report import bundle_card

LABELS = ("joy", "fear", "喜悦")
LABEL_IDS_HERE = [5, 3, 9]
THRESHOLDS = (0.3, 0.5, 0.9)
PARITY = {"rows": 10, "agreement": 1.0, "max_abs_logit_diff": 0.0, "accuracy_before": 0.5, "accuracy_after": 0.5}


class Llama:
    """llama.cpp, whose logits behind every text are those of its class."""

    logits = np.zeros(16)

    def __init__(self, *_, **__):
        self.ctx = self

    def reset(self): ...

    def eval(self, ids): ...

    def tokenize(self, text, **_):
        return [7]


@pytest.fixture
def card(tiny_tokenizer, tmp_path, monkeypatch):
    """The page of a GGUF bundle with these thresholds, None for one label a text."""
    monkeypatch.setattr(bundle_card, "read_header", lambda path: SimpleNamespace(metadata={LABEL_IDS: LABEL_IDS_HERE}))
    fake = SimpleNamespace(Llama=Llama, llama_get_logits_ith=lambda context, place: context.logits)
    monkeypatch.setitem(sys.modules, "llama_cpp", fake)
    tiny_tokenizer.save(str(tmp_path / "tokenizer.json"))

    def write(thresholds):
        bundle = Bundle(
            kind="gguf",
            task="single-label" if thresholds is None else MULTI_LABEL,
            labels=LABELS,
            label_sha256="",
            language="en",
            template="{text}\nEmotion:",
            max_length=32,
            cleaning=(),
            bos_id=2,
            pad_id=0,
            temperature=2.0,
            dtype="q8_0",
            load_gate="strict",
            base={"name": "demo"},
            thresholds=thresholds,
        )
        bundle_card.write_bundle_card(tmp_path, bundle, PARITY | {"accuracy_after_ci95": (0.4, 0.6)})
        return (tmp_path / "README.md").read_text(encoding="utf-8")

    return write


def program(page):
    names = {}
    for block in page.split("```python\n")[1:]:
        exec(block.split("```")[0], names)
    return names


def test_lines_for_several_labels_give_those_above_their_thresholds(card):
    page = card(dict(zip(LABELS, THRESHOLDS, strict=True)))
    lines = program(page)
    task = MultiLabel(LabelSet(LABELS), 2.0, THRESHOLDS)
    rng = np.random.default_rng(0)
    answers = set()
    for logits in rng.normal(scale=4, size=(40, 16)):
        Llama.logits = logits
        (expected,) = task.named(task.decide(logits[None, LABEL_IDS_HERE]))
        assert lines["found"](lines["scores"]("a text")) == expected
        answers.add(tuple(expected))
    assert () in answers and len(answers) > 5
    assert "highest score is the answer" not in page and "says of each label" in page


def test_lines_for_one_label_leave_thresholds_out(card):
    page = card(None)
    assert list(program(page)["scores"]("a text")) == list(LABELS)
    assert "highest score is the answer" in page and "THRESHOLDS" not in page
