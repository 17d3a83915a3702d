"""The template: splitting it, writing it back, and a word as it stands behind it."""

import pytest

from tonetune.data.template import Template
from tonetune.errors import ConfigError


@pytest.mark.parametrize("source", ["{text}", "{text}\nSentiment:", "评论：{text}\n情感：", "a {text} b {turn}"])
def test_a_template_comes_back_as_written(source):
    template = Template.parse(source)
    assert template.source == source
    assert template.prefix + "T" + template.suffix == source.replace("{text}", "T")


@pytest.mark.parametrize(("source", "count"), [("Sentiment:", 0), ("{text} or {text}", 2), ("", 0)])
def test_a_template_without_exactly_one_text_is_refused(source, count):
    with pytest.raises(ConfigError, match=f"{count} times") as caught:
        Template.parse(source)
    assert caught.value.where == "prompt.template"


@pytest.mark.parametrize(
    ("source", "word", "spoken"),
    [
        ("{text}\nSentiment:", "good", " good"),
        ("{text}\nSentiment: ", "good", "good"),
        ("{text}", "good", "good"),
        ("{text}\n情感：", "好", "好"),
        ("{text}\nSentiment:", "好", "好"),
        ("{text}\n情感：", "good", "good"),
        ("{text}<start_of_turn>model\n", "good", "good"),
    ],
)
def test_a_latin_word_is_set_apart_and_a_chinese_one_is_not(source, word, spoken):
    assert Template.parse(source).spoken(word) == spoken
