"""P7 passes a whole tokenizer and names each fault of a broken one."""

import re

import pytest
from tokenizers import AddedToken, decoders, normalizers
from tokenizers.processors import TemplateProcessing

from tonetune.device.probes.tokenizer import BOS, EOS, gemma_like_tokenizer, probe_tokenizer, tokenizer_faults


def changed(change):
    def make():
        tokenizer = gemma_like_tokenizer()
        change(tokenizer)
        return tokenizer

    return make


def processor(single: str):
    def change(tokenizer):
        tokenizer.post_processor = TemplateProcessing(single=single, special_tokens=[("<bos>", BOS), ("<eos>", EOS)])

    return changed(change)


def normalizer(tokenizer):
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "▁")])


def decoder(tokenizer):
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])


def test_a_whole_tokenizer_passes():
    found = probe_tokenizer("cpu", thorough=False)
    assert found.passed and (found.value, found.limit) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (processor("$A"), "holds BOS, 2, 0 times"),
        (processor("<bos> <bos> $A"), "holds BOS, 2, 2 times"),
        (processor("<eos> $A"), r"begins with \[1, "),
        (changed(normalizer), "came back as 'the train"),
        (changed(decoder), "came back as"),
    ],
    ids=["no BOS", "BOS twice", "EOS first", "lower case", "bytes not decoded"],
)
def test_a_broken_tokenizer_is_caught(make, fault):
    found = probe_tokenizer("cpu", thorough=False, make=make)
    assert not found.passed and found.value >= 1
    assert re.search(fault, found.detail)


def test_a_pad_that_is_eos_is_a_fault():
    (fault,) = tokenizer_faults(gemma_like_tokenizer(), bos_id=BOS, pad_id=EOS, eos_id=EOS)
    assert "pad is EOS" in fault


def test_more_ids_than_the_vocabulary_says_is_no_fault_of_added_tokens():
    tokenizer = gemma_like_tokenizer()
    tokenizer.add_tokens([AddedToken("late")])
    assert tokenizer_faults(tokenizer, bos_id=BOS, pad_id=0, eos_id=EOS) == []
