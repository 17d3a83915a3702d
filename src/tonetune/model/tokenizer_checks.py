"""Proof that a tokenizer is the model's own and whole: its ids fit, BOS is BOS, and ordinary text survives it."""

import unicodedata
from pathlib import Path

from tokenizers import Tokenizer

from tonetune.data.tokens import read_tokenizer_config
from tonetune.errors import ModelError

ENGLISH = "The weather was cold and rainy, so we decided to stay at home and watch a film."
SAMPLES = (ENGLISH, "今天天气很冷，我们决定待在家里看电影。", "So happy 😊 … or not?!")
MOST_TOKENS_PER_CHARACTER = 0.6
"""Of English. Real vocabularies need 0.20 to 0.30; a vocabulary whose merges were lost, 1.0 and more."""


def check_tokenizer(
    tokenizer: Tokenizer, *, bos_id: int | None, embeddings: int, directory: Path, fluent: bool = True
) -> None:
    """Raises ModelError where an id has no embedding, BOS is another token, text comes back changed or, with `fluent`,
    English falls into fragments.
    """
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if highest >= embeddings:
        raise ModelError(
            f"the tokenizer has ids up to {highest} but the model only {embeddings} embeddings",
            where=f"{directory}/tokenizer.json",
            hint="tokenizer and weights come from different models",
        )
    named = read_tokenizer_config(directory).get("bos_token")
    named = named.get("content") if isinstance(named, dict) else named
    if bos_id is not None and isinstance(named, str) and tokenizer.token_to_id(named) != bos_id:
        raise ModelError(
            f"BOS is {named!r}, id {tokenizer.token_to_id(named)}, for the tokenizer and id {bos_id} for the model",
            where=f"{directory}/tokenizer_config.json",
            hint="tokenizer and weights come from different models",
        )
    for sample in SAMPLES:
        back = tokenizer.decode(tokenizer.encode(sample, add_special_tokens=False).ids).strip()
        if unicodedata.normalize("NFC", back) != unicodedata.normalize("NFC", sample):
            raise ModelError(
                f"the tokenizer turns {sample!r} into {back!r}",
                where=f"{directory}/tokenizer.json",
                hint="fetch the tokenizer again, or take one that keeps all characters",
            )
    rate = len(tokenizer.encode(ENGLISH, add_special_tokens=False).ids) / len(ENGLISH)
    if fluent and rate > MOST_TOKENS_PER_CHARACTER:
        raise ModelError(
            f"English takes {rate:.2f} tokens a character (limit {MOST_TOKENS_PER_CHARACTER}): words fall apart",
            where=f"{directory}/tokenizer.json",
            hint="the tokenizer's merges are lost or wrong: fetch it again, or convert it with a newer transformers",
        )
