"""The token report: the figures are those of the tokenizer that training uses, counted another way."""

import numpy as np
import pytest
import tiny
from tokenizers import Tokenizer

from tonetune.data.template import DEFAULT_TEMPLATES
from tonetune.data.token_report import token_report


@pytest.mark.parametrize(("language", "cue"), [("en", "happy"), ("zh", "开心")])
def test_figures_are_those_of_the_tokenizer(tiny_tokenizer: Tokenizer, language: str, cue: str) -> None:
    rows = tiny.emotion_rows(language, 60)
    texts, labels = [text for text, _ in rows], sorted({label for _, label in rows})
    template = DEFAULT_TEMPLATES[language, "emotion"]
    lengths = [len(tiny_tokenizer.encode(template.format(text=text)).ids) for text in texts]  # adds BOS by itself
    report = token_report(texts, labels, tiny_tokenizer, max_length=int(np.median(lengths)))
    assert abs(report["tokens"]["mean"] - np.mean(lengths)) < 1  # tokens may join where text and template meet
    assert abs(report["tokens"]["longest"] - max(lengths)) <= 1
    assert report["truncated"] == pytest.approx(np.mean(np.array(lengths) > np.median(lengths)), abs=0.1)
    assert report["tokens_per_character"] == pytest.approx(sum(lengths) / sum(map(len, texts)), rel=0.05)
    assert report["label_words"].keys() == set(labels)
    assert report["emotion_words"][cue]["count"] == sum(text.split().count(cue) if language == "en" else text.count(cue)
                                                        for text in texts)  # fmt: skip
    assert "".join(report["emotion_words"][cue]["pieces"]).strip() == cue


def test_words_are_counted_whole_and_the_longest_wins(tiny_tokenizer: Tokenizer) -> None:
    report = token_report(["unhappy happy", "HAPPY days, sadly", "sad"], ["odd label"], tiny_tokenizer, max_length=64)
    assert {word: row["count"] for word, row in report["emotion_words"].items()} == {"happy": 2, "unhappy": 1, "sad": 1}
    assert report["label_words"]["odd label"]["word"] == "odd label"
    assert len(report["label_words"]["odd label"]["pieces"]) > 2
