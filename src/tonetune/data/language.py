"""The language that most of the texts are in, which chooses the template."""

import re
from collections.abc import Sequence

CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
CHINESE_SHARE = (
    0.3  # of the letters; one Chinese character stands for a word, so names and English terms weigh too much
)
SAMPLE_TEXTS = 1000
SAMPLE_CHARACTERS = 500
GOLDEN = (5**0.5 - 1) / 2


def dominant_language(texts: Sequence[str]) -> str:
    """Return "zh" where Chinese characters make up at least 30 % of all letters, else "en".

    Looks at the first 500 characters of at most 1,000 texts, spread by multiples of the golden ratio: evenly, and in
    step with no pattern of the rows.
    """
    count = min(len(texts), SAMPLE_TEXTS)
    sample = texts if count == len(texts) else [texts[int(i * GOLDEN % 1 * len(texts))] for i in range(count)]
    letters = "".join(c for text in sample for c in text[:SAMPLE_CHARACTERS] if c.isalpha())
    return "zh" if letters and len(CHINESE.findall(letters)) >= CHINESE_SHARE * len(letters) else "en"
