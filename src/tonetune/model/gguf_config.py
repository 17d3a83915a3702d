"""The config of the model in a GGUF file: everything that its header says, or a refusal.

transformers' own reading leaves out scaled rotary embeddings, soft caps and the larger models' attention scale, and
puts its defaults there without a word. Here a value that is not understood is an error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tonetune.errors import ModelError, listed
from tonetune.model import gguf_gemma4 as gemma4
from tonetune.model.gguf_header import GgufHeader

SHAPE = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
"""What every file must say, by transformers' name for it."""

TOKENS = {
    "tokenizer.ggml.bos_token_id": "bos_token_id",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}
ROPE = {"rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor", "rope.scaling.original_context_length"}
WIDTHS = {"attention.key_length", "attention.value_length", "rope.dimension_count"}
"""Widths of a head, which must agree."""
OR_NONE = {"attention.shared_kv_layers", "embedding_length_per_layer_input"}
"""Numbers that can be zero."""
NOT_NUMBERS = {"rope.scaling.type", "rope.scaling.finetuned", "vocab_size", "tensor_data_layout"}
"""Values that are texts, or are without effect."""
ORIGINAL = "name the original model, as a directory or by its hub name"
ROPE_FREQUENCIES = "rope_freqs.weight"
LLAMA3_CONTEXT = 8192
"""Tokens that Llama 3 was trained on before its context was stretched: the same for every size."""


@dataclass(frozen=True)
class Architecture:
    """One of llama.cpp's architectures: transformers' `model_type`, and the keys that it may have beside `SHAPE`.

    `layers_of_largest`: in the size of so many layers, the attention scale comes from hidden width over heads, as in
    no other size; the file does not say so, and llama.cpp knows it by this number too. `per_layer`: keys whose value
    can be a list, one value a layer. `required`: keys that it must have beside `SHAPE`.
    """

    model_type: str
    more: dict[str, str] = field(default_factory=dict)
    layers_of_largest: int | None = None
    per_layer: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


WINDOW = {"attention.sliding_window": "sliding_window"}
LOGIT_CAP = {"final_logit_softcapping": "final_logit_softcapping"}
ATTENTION_CAP = {"attn_logit_softcapping": "attn_logit_softcapping"}
ARCHITECTURES = {
    "llama": Architecture("llama"),
    "qwen2": Architecture("qwen2"),
    "qwen3": Architecture("qwen3"),
    "gemma2": Architecture("gemma2", {**WINDOW, **LOGIT_CAP, **ATTENTION_CAP}, layers_of_largest=46),
    "gemma3": Architecture("gemma3_text", {**WINDOW, **LOGIT_CAP}, layers_of_largest=62),
    "gemma4": Architecture("gemma4_text", gemma4.MORE, per_layer=gemma4.PER_LAYER, required=gemma4.REQUIRED),
}


def config_of(header: GgufHeader) -> dict[str, Any]:
    """Values of config.json, `model_type` among them.

    Raises ModelError for an architecture that cannot be read, for a part of a split file, for a value that is missing
    and for one that transformers' model would not follow.
    """
    architecture = _architecture(header)
    said = _said(header, architecture)
    values = {name: said[key] for key, name in (SHAPE | architecture.more).items() if key in said}
    values |= {name: header.metadata[key] for key, name in TOKENS.items() if key in header.metadata}
    by_heads = values["hidden_size"] // values["num_attention_heads"]
    width = said.get("attention.key_length", by_heads)
    if any(said.get(key, width) != width for key in WIDTHS):
        widths = ", ".join(f"{key} = {said[key]}" for key in sorted(WIDTHS & said.keys()))
        raise ModelError(f"the widths of a head differ: {widths}", where=str(header.path), hint=ORIGINAL)
    values |= {
        "model_type": architecture.model_type,
        "head_dim": width,
        "vocab_size": _rows_of_embedding(header),
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    if architecture.model_type == "gemma4_text":
        return values | gemma4.values_of(header, said, frequencies=_frequencies(header))
    values["rope_parameters"] = _rope(header, said, values)
    if architecture.layers_of_largest is not None:
        largest = values["num_hidden_layers"] == architecture.layers_of_largest
        values["query_pre_attn_scalar"] = by_heads if largest else width
    if "attention.sliding_window" in architecture.more.keys() - said.keys():
        values["layer_types"] = ["full_attention"] * values["num_hidden_layers"]
    return values


def _said(header: GgufHeader, architecture: Architecture) -> dict[str, Any]:
    """The values below the architecture's name. Raises ModelError where one is missing, unknown or no number."""
    prefix = f"{header.architecture}."
    said = {key.removeprefix(prefix): v for key, v in header.metadata.items() if key.startswith(prefix)}
    if missing := [key for key in (*SHAPE, *architecture.required) if key not in said]:
        hint = "convert the model again"
        raise ModelError(f"the file does not say {listed(missing)}", where=str(header.path), hint=hint)
    numbers = {*SHAPE, *architecture.more, *architecture.required, *ROPE, *WIDTHS}
    odd = [
        f"{key} = {value}"
        for key, value in said.items()
        if key not in numbers | NOT_NUMBERS
        or (
            (key in numbers and not _fits(value, zero=key in OR_NONE))
            and not (key in architecture.per_layer and _fits_layers(value, said["block_count"]))
        )
    ]
    if odd:
        what = f"the file sets what tonetune does not understand: {listed(odd, 3)}"
        raise ModelError(what, where=str(header.path), hint=ORIGINAL)
    return said


def _fits(value: object, *, zero: bool = False) -> bool:
    return isinstance(value, (int, float)) and (value >= 0 if zero else value > 0) and value < math.inf


def _fits_layers(value: object, layers: object) -> bool:
    return isinstance(value, list) and len(value) == layers and all(_fits(item, zero=True) for item in value)


def _architecture(header: GgufHeader) -> Architecture:
    """Raises ModelError, naming what is in the file, for one that tonetune or transformers does not read."""
    from transformers import __version__
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    where = str(header.path)
    if (parts := header.metadata.get("split.count", 1)) > 1:
        hint = "join them: llama-gguf-split --merge FIRST.gguf WHOLE.gguf"
        raise ModelError(f"the file is one of {parts} parts of a model", where=where, hint=hint)
    readable = [name for name in ARCHITECTURES if name in GGUF_SUPPORTED_ARCHITECTURES]
    if header.architecture not in readable:
        found = f"the file holds {header.summary}"
        raise ModelError(f"{found}; tonetune and transformers {__version__} read {listed(readable)}", where=where)
    return ARCHITECTURES[header.architecture]


def _rows_of_embedding(header: GgufHeader) -> int:
    if "token_embd.weight" not in header.tensors:
        raise ModelError("the file has no token_embd.weight: it holds no whole model", where=str(header.path))
    return header.tensors["token_embd.weight"].shape[0]


def _rope(header: GgufHeader, said: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary embeddings, per kind of layer where sliding ones have their own. Raises ModelError for an unknown kind."""
    kind = said.get("rope.scaling.type", "none")
    rope = {"rope_type": "default", "rope_theta": said.get("rope.freq_base", 10_000.0)}
    if ROPE_FREQUENCIES in header.tensors:
        rope |= _llama3_scaling(header, rope["rope_theta"], values["head_dim"])
    elif kind in ("linear", "yarn"):
        rope |= {"rope_type": kind, "factor": said.get("rope.scaling.factor", 1.0)}
        if kind == "yarn":
            original = said.get("rope.scaling.original_context_length", values["max_position_embeddings"])
            rope["original_max_position_embeddings"] = original
    elif kind != "none":
        what = f"rotary embeddings of the kind {kind!r}, and none, linear and yarn are read"
        raise ModelError(what, where=str(header.path), hint=ORIGINAL)
    if values["model_type"] != "gemma3_text":
        return rope
    sliding = {"rope_type": "default", "rope_theta": said.get("rope.freq_base_swa", 10_000.0)}
    return {"full_attention": rope, "sliding_attention": sliding}


def _frequencies(header: GgufHeader) -> list[float]:
    """By how much each rotary frequency is divided; nothing where the file does not say."""
    return header.floats(ROPE_FREQUENCIES) if ROPE_FREQUENCIES in header.tensors else []


def _llama3_scaling(header: GgufHeader, theta: float, width: int) -> dict[str, Any]:
    """Llama 3's scaling from what the file holds of it: by how much each frequency is divided.

    Short waves are left alone, waves longer than the first context are divided by `factor`, those between by what
    lies between. Raises ModelError where the file's numbers are not those of this rule with Llama 3's constants.
    """
    found = _frequencies(header)
    factor, low, high = max(found), 1.0, 4.0

    def divisor(wave: float) -> float:
        smooth = min(1.0, max(0.0, (LLAMA3_CONTEXT / wave - low) / (high - low)))
        return 1 / ((1 - smooth) / factor + smooth)

    expected = [divisor(2 * math.pi * theta ** (i / width)) for i in range(0, width, 2)] if factor >= 1 else []
    if len(found) != len(expected) or any(abs(a / b - 1) > 1e-3 for a, b in zip(found, expected, strict=True)):
        what = f"{ROPE_FREQUENCIES} is not what Llama 3's rule gives for a factor of {factor:g}"
        raise ModelError(what, where=str(header.path), hint=ORIGINAL)
    if factor == 1.0:
        return {}
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": LLAMA3_CONTEXT,
    }
