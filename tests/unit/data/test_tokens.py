"""Laws of tokens: BOS once on every path, nothing over the limit, head and tail and the template kept."""

import numpy as np
import pytest
import tiny
from tokenizers import Tokenizer, models, normalizers

from tonetune.data import tokens
from tonetune.data.template import Template
from tonetune.data.tokens import TextTokenizer, read_tokenizer
from tonetune.errors import ConfigError, DataError, ModelError

SENTIMENT = Template.parse("{text}\nSentiment:")
CHAT = Template.parse("<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n")
TEXTS = ["happy", "", "今天开心", "<bos>", "<eos><pad><start_of_turn>", " <bos> and <bos>", "😀\n\n.", "a " * 100]


def reader(tokenizer: Tokenizer, template: Template = SENTIMENT, *, bos_id: int | None = 2, max_length: int = 64):
    return TextTokenizer(tokenizer, template=template, bos_id=bos_id, pad_id=0, max_length=max_length)


# --- BOS and control tokens


@pytest.mark.parametrize("template", [SENTIMENT, CHAT, Template.parse("<bos>{text}:"), Template.parse("{text}")])
@pytest.mark.parametrize(
    "own", [{"bos": True}, {"bos": False}, {"bos": True, "eos": True}, {"bos": False, "eos": True}]
)
def test_bos_comes_once_and_first_whatever_the_tokenizer_adds_itself(template, own):
    for row in reader(tiny.tokenizer(**own), template).encode(TEXTS).ids:
        assert row[0] == tiny.BOS
        assert (row == tiny.BOS).sum() == 1
        assert tiny.EOS not in row
        assert tiny.PAD not in row


def test_a_family_without_bos_gets_none(tiny_tokenizer):
    for row in reader(tiny_tokenizer, bos_id=None).encode(TEXTS).ids:
        assert tiny.BOS not in row


def test_control_tokens_are_those_of_the_template_and_never_of_the_text(tiny_tokenizer):
    start, end = (tiny_tokenizer.token_to_id(name) for name in ("<start_of_turn>", "<end_of_turn>"))
    for row in reader(tiny_tokenizer, CHAT).encode(TEXTS).ids:
        assert (row == start).sum() == 2
        assert (row == end).sum() == 1
    written = reader(tiny_tokenizer).encode(["<start_of_turn>"]).ids[0].tolist()
    assert "<start_of_turn>" in tiny_tokenizer.decode(written, skip_special_tokens=True), "read as plain characters"


def test_prefix_text_and_suffix_read_one_after_the_other(tiny_tokenizer):
    template = Template.parse("Review: {text}\nSentiment:")
    for text, row in zip(
        TEXTS[:-1], reader(tiny_tokenizer, template, max_length=512).encode(TEXTS[:-1]).ids, strict=True
    ):
        assert tiny_tokenizer.decode(row[1:].tolist(), skip_special_tokens=False) == f"Review: {text}\nSentiment:"


def test_the_tokenizer_that_was_given_stays_as_it_was():
    given = tiny.tokenizer()
    given.enable_padding(pad_id=0, length=99)
    given.enable_truncation(3)
    before = given.to_str()
    rows = reader(given).encode(["happy and sad and happy and sad"]).ids
    assert len(rows[0]) != 99 and len(rows[0]) > 3
    assert given.to_str() == before
    given.no_padding()
    assert given.encode("<bos>").ids == [tiny.BOS, tiny.BOS], "control tokens are still read by others"


def test_a_text_is_never_without_tokens(tiny_tokenizer):
    """Without BOS and template an empty text would leave nothing to pool."""
    assert all(
        len(row) > 0 for row in reader(tiny_tokenizer, Template.parse("{text}"), bos_id=None).encode(["", "a"]).ids
    )


# --- limits


@pytest.mark.parametrize("max_length", [16, 17, 30])
@pytest.mark.parametrize("template", [SENTIMENT, Template.parse("Text: {text}\n情感：")])
def test_a_long_text_keeps_its_head_its_tail_and_the_template(tiny_tokenizer, template, max_length):
    text = "".join(chr(ord("a") + i % 26) for i in range(100))  # a token per letter
    plain = tiny_tokenizer.encode(text, add_special_tokens=False).ids
    assert len(plain) == 100
    prefix, suffix = (
        tiny_tokenizer.encode(part, add_special_tokens=False).ids for part in (template.prefix, template.suffix)
    )
    encoded = reader(tiny_tokenizer, template, max_length=max_length).encode([text])
    row = encoded.ids[0].tolist()
    assert encoded.truncated.tolist() == [True]
    assert len(row) == max_length
    assert row[: 1 + len(prefix)] == [tiny.BOS, *prefix]
    assert row[len(row) - len(suffix) :] == suffix
    kept = row[1 + len(prefix) : len(row) - len(suffix)]
    head = len(kept) // 2
    assert kept == plain[:head] + plain[-(len(kept) - head) :]


def test_a_text_that_just_fits_is_whole(tiny_tokenizer):
    template_tokens = len(reader(tiny_tokenizer).encode([""]).ids[0])
    room = 40 - template_tokens
    encoded = reader(tiny_tokenizer, max_length=40).encode(["x" * room, "x" * (room + 1), "x" * (room - 1)])
    assert encoded.truncated.tolist() == [False, True, False]
    assert encoded.lengths.tolist() == [40, 40, 39]


def test_a_template_that_leaves_no_room_is_refused(tiny_tokenizer):
    with pytest.raises(ConfigError, match="of 16 tokens") as caught:
        reader(tiny_tokenizer, Template.parse("{text}" + "x" * 14), max_length=16)
    assert caught.value.where == "data.max_length"
    assert reader(tiny_tokenizer, Template.parse("{text}" + "x" * 13), max_length=16).encode(
        ["abc"]
    ).lengths.tolist() == [16]


@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_texts_encode_alone_as_together(tiny_tokenizer, chunk, monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", chunk)
    together = reader(tiny_tokenizer).encode(TEXTS)
    assert len(together.truncated) == len(together.ids) == len(TEXTS)
    for text, row in zip(TEXTS, together.ids, strict=True):
        assert row.dtype == np.int32
        assert np.array_equal(reader(tiny_tokenizer).encode([text]).ids[0], row)
    assert reader(tiny_tokenizer).encode([]).ids == []


# --- for other programs


def portable(tokenizer: TextTokenizer) -> Tokenizer:
    """The saved tokenizer as transformers uses it with `split_special_tokens`."""
    result = Tokenizer.from_str(tokenizer.to_json())
    result.encode_special_tokens = True
    return result


@pytest.mark.parametrize("bos_id", [tiny.BOS, None])
@pytest.mark.parametrize("template", [SENTIMENT, CHAT, Template.parse("<bos>{text}"), Template.parse("Text: {text}")])
@pytest.mark.parametrize("own", [{"bos": True}, {"bos": False, "eos": True}])
def test_a_saved_tokenizer_reads_a_text_as_this_one_does(own, template, bos_id):
    ours = reader(tiny.tokenizer(**own), template, bos_id=bos_id, max_length=512)
    for text, row in zip(TEXTS, ours.encode(TEXTS).ids, strict=True):
        assert portable(ours).encode(text).ids == row.tolist()


def test_a_saved_tokenizer_cuts_a_long_text_and_never_the_template(tiny_tokenizer):
    ours = reader(tiny_tokenizer, CHAT, max_length=32)
    theirs = portable(ours)
    theirs.enable_truncation(32)
    text = "".join(chr(ord("a") + i % 26) for i in range(100))
    found, kept, empty = theirs.encode(text).ids, ours.encode([text]).ids[0].tolist(), ours.encode([""]).ids[0].tolist()
    assert len(found) == len(kept) == 32
    room = 32 - len(empty)
    begin = next(i for i in range(len(empty)) if found[i] != empty[i])
    assert found[:begin] + found[begin + room :] == empty
    assert found[begin : begin + room] == tiny_tokenizer.encode(text, add_special_tokens=False).ids[:room]


def test_a_template_in_the_tokenizer_is_not_put_around_a_text_again(tiny_tokenizer):
    once = reader(tiny_tokenizer)
    twice = reader(Tokenizer.from_str(once.to_json()))
    for first, second in zip(once.encode(TEXTS).ids, twice.encode(TEXTS).ids, strict=True):
        assert np.array_equal(first, second)


# --- words


@pytest.mark.parametrize("template", [SENTIMENT, CHAT, Template.parse("{text}\n情感："), Template.parse("{text} ")])
@pytest.mark.parametrize("word", ["happy", "sad", "开心", "no emotion"])
def test_a_word_continues_the_template(tiny_tokenizer, template, word):
    row = reader(tiny_tokenizer, template).encode(["x"]).ids[0].tolist()
    whole = f"x{template.suffix}{template.spoken(word)}"
    words = reader(tiny_tokenizer, template).word_ids(word)
    assert row[1:][-len(words) :] != words
    prefix = tiny_tokenizer.encode(template.prefix, add_special_tokens=False).ids
    ids = row[1 + len(prefix) :] + words
    assert tiny_tokenizer.decode(ids, skip_special_tokens=False) == whole


def test_words_differ_where_a_tokenizer_puts_a_blank_before_everything():
    """Llama 2 and Mistral: a word alone would begin with the blank that only the start of a text has."""
    letters = {c: i for i, c in enumerate(["<unk>", *"▁:goadbnSetim\n", "▁▁"])}
    metaspace = Tokenizer(models.BPE(letters, [("▁", "▁")], unk_token="<unk>"))
    metaspace.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    words = reader(metaspace, Template.parse("{text}\nSentiment: "), bos_id=None)
    assert [metaspace.id_to_token(words.word_ids(word)[0]) for word in ("good", "bad")] == ["g", "b"]
    words = reader(metaspace, Template.parse("{text}\nSentiment:"), bos_id=None)
    assert [metaspace.id_to_token(i) for i in words.word_ids("bad")] == ["▁", "b", "a", "d"]


# --- files


def test_a_tokenizer_is_read_from_its_directory(tiny_gemma):
    assert read_tokenizer(tiny_gemma).encode("happy").ids[0] == tiny.BOS


@pytest.mark.parametrize("content", [None, "", "{}", '{"version": "1.0", "model": {"type": "XYZ"}}', "\udcff"])
def test_a_directory_without_a_readable_tokenizer_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match=r"tokenizer\.json") as caught:
        read_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value.where)


def test_the_pieces_of_a_word_are_those_of_its_tokens(tiny_tokenizer):
    for template in ("{text}\nSentiment:", "{text}\n情感："):
        reader = TextTokenizer(tiny_tokenizer, template=Template.parse(template), bos_id=2, pad_id=0, max_length=64)
        for word in ("happy", "开心", "𝄞x", "odd label"):
            pieces = reader.pieces(word)
            assert len(pieces) == len(reader.word_ids(word))
            assert "".join(dict.fromkeys(pieces)).strip().startswith(word[:1])
        assert reader.pieces("龘") == ["龘"] * 3  # three bytes


# --- several turns

TURNS = Template.parse("A: {turn1}\nB: {turn2}\nA: {turn3}\nEmotion:")


def test_turns_stand_where_the_template_names_them(tiny_tokenizer):
    texts = ["happy\n\n今天开心", "<bos>\n<eos> and\n😀"]
    for text, row in zip(texts, reader(tiny_tokenizer, TURNS, max_length=128).encode(texts).ids, strict=True):
        one, two, three = text.split("\n")
        assert row[0] == tiny.BOS and (row == tiny.BOS).sum() == 1
        written = tiny_tokenizer.decode(row[1:].tolist(), skip_special_tokens=False)
        assert written == f"A: {one}\nB: {two}\nA: {three}\nEmotion:"


@pytest.mark.parametrize("lengths", [(1, 2, 100), (50, 60, 70), (0, 0, 200), (9, 9, 9), (30, 1, 30)])
@pytest.mark.parametrize("max_length", [40, 64])
def test_the_longest_turns_are_cut_to_one_length_and_short_ones_stay(tiny_tokenizer, lengths, max_length):
    bare = Template.parse("{turn1}|{turn2}|{turn3}|")
    bar = tiny_tokenizer.encode("|", add_special_tokens=False).ids[0]
    text = "\n".join("好" * n for n in lengths)
    encoded = reader(tiny_tokenizer, bare, max_length=max_length).encode([text])
    row, found = encoded.ids[0].tolist()[1:], []
    while row:
        found.append(row.index(bar))
        row = row[found[-1] + 1 :]
    room = max_length - 4
    most = max(n for n in range(room + 1) if sum(min(length, n) for length in lengths) <= room)
    assert found == [min(length, most) for length in lengths]
    assert bool(encoded.truncated[0]) == (sum(lengths) > room)


def test_a_text_of_another_number_of_turns_is_refused(tiny_tokenizer):
    with pytest.raises(DataError, match="3 turns, one a line, is expected, found 2"):
        reader(tiny_tokenizer, TURNS).encode(["one\ntwo"])
