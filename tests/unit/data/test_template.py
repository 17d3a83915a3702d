"""The template: splitting it, writing it back, and a word as it stands behind it."""

import re

import pytest

from tonetune.data.template import Template, with_turns
from tonetune.errors import ConfigError


@pytest.mark.parametrize("source", ["{text}", "{text}\nSentiment:", "评论：{text}\n情感：", "a {text} b {turn}"])
def test_a_template_comes_back_as_written(source):
    template = Template.parse(source)
    assert template.source == source
    assert template.prefix + "T" + template.suffix == source.replace("{text}", "T")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Sentiment:", "no place for a text"),
        ("", "no place for a text"),
        ("{text} or {text}", "{text}, {text}"),
        ("{turn2} {turn1}", "{turn2}, {turn1}"),
        ("{turn1} {turn3}", "{turn1}, {turn3}"),
        ("{turn1} {text}", "{turn1}, {text}"),
        ("{turn1} alone", "{turn1}"),
    ],
)
def test_a_template_takes_one_text_or_every_turn_once_in_order(source, found):
    with pytest.raises(ConfigError, match=re.escape(f"holds {found}")) as caught:
        Template.parse(source)
    assert caught.value.where == "prompt.template"


@pytest.mark.parametrize("source", ["{turn1}{turn2}", "A: {turn1}\nB: {turn2}\nA: {turn3}\nEmotion:"])
def test_a_template_of_turns_comes_back_as_written(source):
    template = Template.parse(source)
    assert template.source == source
    filled = template.parts[0] + "".join(f"T{i}{part}" for i, part in enumerate(template.parts[1:], start=1))
    assert filled == re.sub(r"\{turn(\d)\}", r"T\1", source)


def test_a_default_template_takes_turns_on_lines_of_their_own():
    assert with_turns("{text}\nEmotion:", 1) == "{text}\nEmotion:"
    assert with_turns("{text}\nEmotion:", 3) == "{turn1}\n{turn2}\n{turn3}\nEmotion:"
    assert Template.parse(with_turns("{text}\nEmotion:", 12)).num_turns == 12


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
