"""Laws of the head's words: they differ, they are best first, and the head they give is the zero-shot baseline."""

import itertools

import numpy as np
import pytest
import tiny
import torch

from tonetune.data.batches import TokenStore
from tonetune.data.template import Template
from tonetune.data.tokens import TextTokenizer
from tonetune.errors import ConfigError
from tonetune.labels import LabelSet
from tonetune.model import head
from tonetune.model.artefact import text_tokenizer
from tonetune.model.classifier import Classifier
from tonetune.model.head import choose_words, flat_ids, head_from_words, random_head

EN, ZH = Template.parse("{text}\nSentiment:"), Template.parse("{text}\n情感：")


@pytest.fixture(scope="module")
def english(tiny_tokenizer):
    return TextTokenizer(tiny_tokenizer, template=EN, bos_id=2, pad_id=0, max_length=64)


@pytest.fixture(scope="module")
def chinese(tiny_tokenizer):
    return TextTokenizer(tiny_tokenizer, template=ZH, bos_id=2, pad_id=0, max_length=64)


# --- choosing


@pytest.mark.parametrize("language", ["en", "zh"])
def test_chosen_words_have_distinct_first_tokens(english, chinese, language):
    labels = LabelSet(("anger", "joy", "sadness", "fear", "neutral", "surprise", "happiness", "其他", "billing"))
    tokenizer = english if language == "en" else chinese
    words = choose_words(labels, tokenizer, language=language)
    assert words is not None and words.note is None
    first = [tokenizer.word_ids(word)[0] for word in words.words]
    assert words.token_ids == tuple((token,) for token in first)
    assert len(set(first)) == len(labels)
    assert words.as_dict(labels)["anger"] == {"en": "angry", "zh": "愤怒"}[language]
    assert words.as_dict(labels)["billing"] == "billing"


def test_the_best_word_wins_where_all_differ_and_another_where_they_do_not(english):
    words = choose_words(LabelSet(("positive", "negative")), english, language="en")
    assert words is not None and words.words == ("positive", "negative")
    both = choose_words(LabelSet(("joy", "happiness")), english, language="en")
    assert both is not None and len(set(both.words)) == 2 and set(both.words) < {"happy", "joy", "glad", "happiness"}


def test_the_words_are_the_best_of_all_combinations(english, monkeypatch):
    """Ranks summed over labels, against every combination."""
    options = {"a": ["xa", "good", "bad"], "b": ["xb", "good"], "c": ["xc", "xd", "sad"], "d": ["great", "glad"]}
    monkeypatch.setattr(head, "_candidates", lambda label, language: options[label])
    found = choose_words(LabelSet(tuple(options)), english, language="en")
    ranks = {
        combination: sum(options[label].index(word) for label, word in zip(options, combination, strict=True))
        for combination in itertools.product(*options.values())
        if len({english.word_ids(word)[0] for word in combination}) == len(options)
    }
    assert found is not None and ranks[found.words] == min(ranks.values())


def test_many_labels_of_which_two_cannot_differ_are_decided_at_once(english, monkeypatch):
    options = {f"label {i}": [f"{chr(97 + i)}{letter}" for letter in "xyz"] for i in range(26)}
    options = {k: [w.upper() for w in v] for k, v in options.items()}
    options |= {"one": ["~one"], "two": ["~two"]}
    monkeypatch.setattr(head, "_candidates", lambda label, language: options[label])
    monkeypatch.setattr(Template, "spoken", lambda self, word: word)
    words = choose_words(LabelSet(tuple(options)), english, language="en")
    assert words is not None and words.note
    assert words.words == tuple(option[0] for option in options.values())


def test_words_that_share_their_first_token_stand_by_their_mean(english):
    words = choose_words(LabelSet(("xylem", "xylol")), english, language="en")
    assert words is not None and words.words == ("xylem", "xylol")
    assert words.note is not None and "mean" in words.note
    assert words.token_ids == tuple(tuple(english.word_ids(word)) for word in words.words)
    assert all(len(ids) > 1 for ids in words.token_ids)


def test_numbers_have_no_words_unless_the_user_names_them(english):
    labels = LabelSet(("0", "1"))
    assert choose_words(labels, english, language="en") is None
    words = choose_words(labels, english, language="en", chosen={"1": "good", "0": "bad"})
    assert words is not None and words.words == ("bad", "good")


def test_the_users_words_must_fit_the_labels(english):
    with pytest.raises(ConfigError) as caught:
        choose_words(LabelSet(("a", "b")), english, language="en", chosen={"a": "good", "c": "x", "d": "y"})
    assert len(caught.value.problems) == 3 and caught.value.where == "prompt.words"
    with pytest.raises(ConfigError, match="share one word: good, good"):
        choose_words(LabelSet(("a", "b")), english, language="en", chosen={"a": "good", "b": "good"})


# --- the head


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize(
    ("labels", "template"), [(("joy", "anger", "fear"), EN), (("开心", "愤怒"), ZH), (("xylem", "xylol"), EN)]
)
def test_step_0_is_the_zero_shot_baseline(tiny_model, family, labels, template):
    """transformers' language model, its last logits at the words, uncapped; labels of several tokens by their mean."""
    base = tiny.load(tiny_model(family))
    tokenizer = text_tokenizer(base, template=template, max_length=64)
    language = "zh" if template is ZH else "en"
    words = choose_words(LabelSet(labels), tokenizer, language=language)
    assert words is not None
    classifier = Classifier(base.body, head_from_words(words, base.lm_head_rows(flat_ids(words)))).eval()
    texts = [text for text, _ in tiny.emotion_rows(language, 6)]
    ids = tokenizer.encode(texts).ids
    batch = TokenStore(ids, pad_id=base.pad_id, device=torch.device("cpu")).batch(np.arange(6))
    model = tiny.language_model(tiny_model(family))
    if getattr(model.config, "final_logit_softcapping", None):
        model.config.final_logit_softcapping = 1e5  # as good as none; Gemma 3n takes no None
    with torch.no_grad():
        found = classifier(batch.ids_BT, batch.mask_BT, right_padded=True).log_softmax(dim=1)
        last = torch.stack([model(input_ids=torch.from_numpy(row).long()[None]).logits[0, -1] for row in ids])
    expected = torch.stack([last[:, list(word)].mean(dim=1) for word in words.token_ids], dim=1).log_softmax(dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert found.exp().std(dim=0).max() > 1e-3, "the texts differ"


def test_the_heads_rows_sum_to_nothing_and_are_float32():
    words = head.LabelWords(("a", "b", "c"), ((1,), (2, 3), (4,)))
    rows = torch.randn(4, 8, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0))
    weights = head_from_words(words, rows)
    assert weights.dtype == torch.float32 and weights.shape == (3, 8)
    torch.testing.assert_close(weights.sum(dim=0), torch.zeros(8), rtol=0, atol=1e-6)
    torch.testing.assert_close(weights[1] - weights[0], (rows[1].float() + rows[2].float()) / 2 - rows[0].float())


def test_a_random_head_depends_on_the_generator_alone():
    one, same, other = (random_head(50, 64, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert one.std().item() == pytest.approx(0.02, rel=0.1) and one.dtype == torch.float32
