"""The tokenizer as a GGUF file holds it: byte-level merges, or SentencePiece pieces with scores."""

import json
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from tonetune.errors import ModelError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Kinds of tokens, as llama.cpp numbers them."""
SPARE = ("unused", "reserved_special", "control_")
"""What the names of control tokens hold that a vocabulary keeps for later: no text and no template has them."""
PRE_TOKENIZERS = {"llama": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}
"""llama.cpp's name for how a byte-level vocabulary cuts texts into words, by family."""
NO_MERGES = -1e9


@dataclass(frozen=True)
class Vocabulary:
    """All tokens by id, one for each row of the embeddings.

    `model` is llama.cpp's kind of tokenizer: "llama" joins pieces by their `scores`, "gpt2" by `merges` after it cut
    the text as `pre` says. `space_prefix`: a text gets a blank in front.
    """

    model: str
    pre: str
    tokens: list[str]
    types: list[int]
    scores: list[float]
    merges: list[str]
    space_prefix: bool

    def spare(self, count: int, *, taken: set[int]) -> list[int]:
        """Ids of `count` tokens that no text has: those without a name first, then reserved ones.

        Raises ModelError where the vocabulary has fewer.
        """
        unnamed = [i for i, kind in enumerate(self.types) if kind == UNUSED]
        reserved = [
            i
            for i, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind == CONTROL and any(part in token for part in SPARE)
        ]
        free = [i for i in [*unnamed, *reserved] if i not in taken]
        if len(free) < count:
            what = f"{count} labels need as many tokens that no text has, and the vocabulary has {len(free)}"
            raise ModelError(what, where="tokenizer.json", hint="--to merged or --to onnx")
        return free[:count]


def vocabulary_of(tokenizer: Tokenizer, rows: int, *, family: str) -> Vocabulary:
    """The vocabulary of a tokenizer, padded to the `rows` of the embeddings.

    Raises ModelError for a tokenizer that is no byte-pair encoding.
    """
    document = json.loads(tokenizer.to_str())
    model = document["model"]
    if model["type"] != "BPE":
        what = f"a tokenizer of the kind {model['type']}, and GGUF is written of byte-pair encodings"
        raise ModelError(what, where="tokenizer.json", hint="--to merged or --to onnx")
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens, types = [f"[PAD{i}]" for i in range(rows)], [UNUSED] * rows
    added = {token["id"]: token for token in document["added_tokens"]}
    for token, i in ids.items():
        tokens[i], types[i] = token, _kind(token, added.get(i), model)
    merges = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    if not model.get("byte_fallback"):
        pre = PRE_TOKENIZERS[family] if _cuts_by_pattern(document) else "gpt-2"
        return Vocabulary("gpt2", pre, tokens, types, [], [" ".join(pair) for pair in merges], False)
    scores = [NO_MERGES] * rows
    for rank, (left, right) in enumerate(merges):
        i = ids[left + right]
        scores[i] = max(scores[i], float(-rank))
    prefixed = tokenizer.encode("a", add_special_tokens=False).tokens[0].startswith("▁")
    return Vocabulary("llama", "default", tokens, types, scores, [], prefixed)


def _kind(token: str, added: dict[str, Any] | None, model: dict[str, Any]) -> int:
    if token == model.get("unk_token"):
        return UNKNOWN
    if added:
        return CONTROL if added["special"] else USER_DEFINED
    is_byte = model.get("byte_fallback") and len(token) == 6 and token.startswith("<0x")
    return BYTE if is_byte else NORMAL


def _cuts_by_pattern(document: dict[str, Any]) -> bool:
    """Whether a pattern of its own cuts texts into words, as in Llama 3 and Qwen, and not GPT-2's."""
    first = document["pre_tokenizer"] or {}
    return any(step["type"] == "Split" for step in first.get("pretokenizers", [first]))
