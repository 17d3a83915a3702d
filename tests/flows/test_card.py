"""The model card's two programs run as they stand, and say the same of a text."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
import tiny

TEXTS = [text for text, _ in tiny.emotion_rows("en", 3, seed=77)]


def programs(run: Path) -> list[str]:
    card = (run / "README.md").read_text(encoding="utf-8")
    return [
        block.replace("path/to/this/directory", str(run)) for block in re.findall(r"```python\n(.*?)```", card, re.S)
    ]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT 0.21, 12/2026
@pytest.mark.parametrize("text", TEXTS)
def test_both_programs_of_the_card_give_the_same_label_and_confidence(run: Path, text: str) -> None:
    ours, plain = (program.replace('"a text"', repr(text)) for program in programs(run))
    found: dict[str, Any] = {}
    exec(ours.replace("classifier.predict(", "found = classifier.predict("), found)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(plain, {})
    label, confidence = printed.getvalue().splitlines()[0].split()
    assert label == found["found"].label
    assert float(confidence) == pytest.approx(found["found"].confidence, abs=1e-4)
