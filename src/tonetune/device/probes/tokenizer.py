"""P7: a tokenizer like Gemma's keeps every character, puts BOS first and once, and pads without changing ids."""

import unicodedata
from collections.abc import Callable

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from tokenizers.processors import TemplateProcessing

from tonetune.device.probes.result import Measurement

PAD, EOS, BOS, UNK = range(4)
SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>")
TEXTS = (
    "The train was late again, and nobody said why.",
    "烦死了，等了三个小时",
    "So glad 😊!",
    "cafe\N{COMBINING ACUTE ACCENT} naïve Straße",
    "  two  blanks\n\tand a tab",
)


def gemma_like_tokenizer() -> Tokenizer:
    """BPE over characters with ▁ for blanks, and bytes where a character is unknown, as Gemma's."""
    vocabulary = {name: i for i, name in enumerate([*SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))])}
    merges = []
    for character in ["▁", *map(chr, range(33, 127)), *"烦死了，等三个小时"]:
        vocabulary[character] = len(vocabulary)
    for left, right in (("▁", "t"), ("▁t", "h"), ("▁", "w"), ("等", "了"), ("小", "时")):
        vocabulary[left + right] = len(vocabulary)
        merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    return tokenizer


def probe_tokenizer(
    device: str, *, thorough: bool, make: Callable[[], Tokenizer] = gemma_like_tokenizer
) -> Measurement:
    """Every check of every text; no device takes part."""
    faults = tokenizer_faults(make(), bos_id=BOS, pad_id=PAD, eos_id=EOS)
    detail = "; ".join(faults) if faults else f"{len(TEXTS)} texts came back whole, with BOS once"
    return Measurement(not faults, float(len(faults)), 0.0, detail)


def tokenizer_faults(tokenizer: Tokenizer, *, bos_id: int, pad_id: int, eos_id: int) -> list[str]:
    """What is wrong with a tokenizer that adds BOS by itself, a sentence for each fault."""
    faults = ["pad is EOS: a real EOS would be taken for padding"] if pad_id == eos_id else []
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    alone = [tokenizer.encode(text).ids for text in TEXTS]
    for text, ids in zip(TEXTS, alone, strict=True):
        if ids[:1] != [bos_id] or ids.count(bos_id) != 1:
            faults.append(f"{text!r} begins with {ids[:2]} and holds BOS, {bos_id}, {ids.count(bos_id)} times")
        if max(ids) >= size:
            faults.append(f"{text!r} has the id {max(ids)}, and there are {size}")
        back = tokenizer.decode(ids)
        if unicodedata.normalize("NFC", back) != unicodedata.normalize("NFC", text):
            faults.append(f"{text!r} came back as {back!r}")
    tokenizer.enable_padding(pad_id=pad_id)
    for text, ids, row in zip(TEXTS, alone, tokenizer.encode_batch(list(TEXTS)), strict=True):
        if [i for i, real in zip(row.ids, row.attention_mask, strict=True) if real] != ids:
            faults.append(f"{text!r} has other ids in a padded batch")
    return faults
