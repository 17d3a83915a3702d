"""A tokenizer that is not the model's own, or not whole, is refused before any weight is read."""

import json
import shutil

import pytest
import tiny
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tonetune.errors import ModelError
from tonetune.model.tokenizer_checks import ENGLISH, MOST_TOKENS_PER_CHARACTER, check_tokenizer


@pytest.fixture
def model(tiny_gemma, tmp_path):
    return shutil.copytree(tiny_gemma, tmp_path / "model")


def check(tokenizer, directory, *, bos_id=tiny.BOS, embeddings=tiny.VOCABULARY, fluent=False):
    check_tokenizer(tokenizer, bos_id=bos_id, embeddings=embeddings, directory=directory, fluent=fluent)


def test_the_models_own_tokenizer_passes(model):
    check(tiny.tokenizer(), model, fluent=True)
    (model / "tokenizer_config.json").unlink()
    check(tiny.tokenizer(), model, bos_id=None)


def test_an_id_without_an_embedding_is_refused(model):
    highest = max(tiny.tokenizer().get_vocab().values())
    check(tiny.tokenizer(), model, embeddings=highest + 1)
    with pytest.raises(ModelError, match=f"ids up to {highest} but the model only {highest} embeddings"):
        check(tiny.tokenizer(), model, embeddings=highest)


@pytest.mark.parametrize("token", ["<eos>", {"content": "<eos>", "lstrip": False}, "<nowhere>"])
def test_a_bos_that_is_another_token_is_refused(model, token):
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "bos_token": token}))
    with pytest.raises(ModelError, match=r"BOS is .* for the tokenizer and id 2 for the model"):
        check(tiny.tokenizer(), model)


def test_a_tokenizer_that_changes_text_is_refused(model):
    tokenizer = tiny.tokenizer()
    tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(ModelError, match=r"turns 'The weather was cold.* into 'the weather"):
        check(tokenizer, model)


def test_a_tokenizer_that_lost_its_merges_is_refused(model):
    """The letters are all there, so that text survives, but every one is a token."""
    whole = tiny.tokenizer()
    letters = {letter: i for i, letter in enumerate([*tiny.SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = whole.pre_tokenizer, whole.decoder
    check(tokenizer, model)
    assert len(tokenizer.encode(ENGLISH).ids) == len(ENGLISH) > MOST_TOKENS_PER_CHARACTER * len(ENGLISH)
    with pytest.raises(ModelError, match=r"English takes 1\.00 tokens a character"):
        check(tokenizer, model, fluent=True)


def test_a_damaged_tokenizer_config_is_refused(model):
    (model / "tokenizer_config.json").write_text('{"bos_token": ')
    with pytest.raises(ModelError, match=r"tokenizer_config\.json is damaged"):
        check(tiny.tokenizer(), model)
