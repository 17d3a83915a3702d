"""A vocabulary in a GGUF file: pieces by score give the ids of merges by rank, and labels take tokens no text has."""

from itertools import pairwise

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers

from tonetune.errors import ModelError
from tonetune.export.gguf_vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, vocabulary_of

BYTES = [f"<0x{i:02X}>" for i in range(256)]
MERGES = [("l", "o"), ("lo", "w"), ("▁", "low"), ("e", "r"), ("low", "er"), ("▁", "l"), ("▁low", "er"), ("n", "e")]


def pieces() -> Tokenizer:
    """A vocabulary as SentencePiece's: blanks are ▁, what is no piece becomes bytes."""
    names = ["<pad>", "<unk>", "<unused0>", "<unused1>", "<table>", *BYTES, *"▁lowern", *map("".join, MERGES)]
    result = Tokenizer(
        models.BPE({name: i for i, name in enumerate(names)}, MERGES, byte_fallback=True, unk_token="<unk>")
    )
    result.normalizer = normalizers.Replace(" ", "▁")
    result.add_special_tokens([AddedToken(name, special=True) for name in ("<pad>", "<unused0>", "<unused1>")])
    result.add_tokens([AddedToken("<table>", normalized=False)])
    return result


def joined_by_score(text: str, tokens: list[str], scores: list[float]) -> list[int]:
    """llama.cpp's way: the two neighbours that make the piece of the highest score become one, the leftmost first."""
    ids = {token: i for i, token in enumerate(tokens)}
    parts = list(text.replace(" ", "▁"))
    while pairs := [(-scores[ids[a + b]], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ids]:
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    found = [[ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()] for part in parts]
    return [i for row in found for i in row]


@pytest.mark.parametrize("text", ["lower low", " lower", "newer slow", "low 好 er", "llower"])
def test_scores_join_pieces_as_merges_do(text):
    vocabulary = vocabulary_of(pieces(), 300, family="gemma3_text")
    assert vocabulary.model == "llama" and not vocabulary.space_prefix
    expected = pieces().encode(text, add_special_tokens=False).ids
    assert joined_by_score(text, vocabulary.tokens, vocabulary.scores) == expected


def test_kinds_of_tokens():
    vocabulary = vocabulary_of(pieces(), 300, family="gemma3_text")
    kinds = dict(zip(vocabulary.tokens, vocabulary.types, strict=True))
    assert kinds["<unk>"] == UNKNOWN and kinds["<pad>"] == CONTROL and kinds["<table>"] == USER_DEFINED
    assert kinds["<0x41>"] == BYTE and kinds["low"] == NORMAL and kinds["[PAD299]"] == UNUSED


def test_labels_take_tokens_that_no_text_has():
    exact = pieces().get_vocab_size()
    vocabulary = vocabulary_of(pieces(), exact, family="gemma3_text")
    assert [vocabulary.tokens[i] for i in vocabulary.spare(2, taken=set())] == ["<unused0>", "<unused1>"]
    padded = vocabulary_of(pieces(), exact + 1, family="gemma3_text")
    assert padded.spare(2, taken={2}) == [exact, 3]
    with pytest.raises(ModelError, match=r"3 labels need as many tokens .* has 2"):
        vocabulary.spare(3, taken=set())


def test_a_byte_level_vocabulary_keeps_its_merges(tiny_tokenizer):
    vocabulary = vocabulary_of(tiny_tokenizer, 2048, family="gemma3_text")
    assert (vocabulary.model, vocabulary.pre) == ("gpt2", "gpt-2")
    left, right = vocabulary.merges[0].split(" ")
    assert left + right in vocabulary.tokens


def test_a_tokenizer_that_does_not_merge_is_refused():
    with pytest.raises(ModelError, match="kind WordLevel"):
        vocabulary_of(Tokenizer(models.WordLevel({"a": 0}, "a")), 4, family="llama")
