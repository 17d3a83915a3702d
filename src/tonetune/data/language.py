"""The language that most of the texts are in, which chooses the template."""

import math
import re
from collections.abc import Sequence

CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
CHINESE_SHARE = (
    0.3  # of the letters; one Chinese character stands for a word, so names and English terms weigh too much
)
SAMPLE_TEXTS = 1000
SAMPLE_CHARACTERS = 500


def dominant_language(texts: Sequence[str]) -> str:
    """Return "zh" where Chinese characters make up at least 30 % of all letters, else "en".

    Looks at the first 500 characters of at most 1,000 texts, evenly spaced.
    """
    step = math.ceil(len(texts) / SAMPLE_TEXTS) or 1
    letters = "".join(c for text in texts[::step] for c in text[:SAMPLE_CHARACTERS] if c.isalpha())
    return "zh" if letters and len(CHINESE.findall(letters)) >= CHINESE_SHARE * len(letters) else "en"
