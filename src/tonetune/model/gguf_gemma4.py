"""Gemma 4 in a GGUF file: two kinds of layers with heads of their own, shared keys and values, embeddings per layer."""

from collections.abc import Mapping, Sequence
from typing import Any

from tonetune.errors import ModelError
from tonetune.model.gguf_header import GgufHeader

MORE = {
    "attention.sliding_window": "sliding_window",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "final_logit_softcapping": "final_logit_softcapping",
}
"""Keys that a Gemma 4 has beside the common ones, by transformers' name."""
PER_LAYER = frozenset({"attention.sliding_window_pattern", "attention.head_count_kv", "feed_forward_length"})
"""Keys whose value can be a list, one value a layer."""
SLIDING_WIDTHS = frozenset({"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
"""Widths of a head of the sliding layers, which must agree."""
REQUIRED = SLIDING_WIDTHS | {"attention.key_length", "attention.sliding_window_pattern"}
TABLE = "per_layer_token_embd.weight"
UNROTATED = 1e29
"""Frequencies divided by this or more are those of dimensions that are not rotated."""


def values_of(header: GgufHeader, said: Mapping[str, Any], *, frequencies: Sequence[float]) -> dict[str, Any]:
    """Values of config.json that a Gemma 4 has in place of the common ones.

    `frequencies` are the divisors of the full layers' rotary frequencies. Raises ModelError where transformers' model
    would not follow what the file says, such as heads that differ from layer to layer.
    """
    layers = said["block_count"]
    pattern = said["attention.sliding_window_pattern"]
    first_shared = layers - said.get("attention.shared_kv_layers", 0)
    kv_heads, widths = (_each(said[key], layers) for key in ("attention.head_count_kv", "feed_forward_length"))
    sliding = {heads for heads, slides in zip(kv_heads, pattern, strict=True) if slides}
    full = {heads for heads, slides in zip(kv_heads, pattern, strict=True) if not slides}
    doubled = widths[-1] > widths[0]
    keys_are_values = not all(f"blk.{i}.attn_v.weight" in header.tensors for i in range(first_shared))
    rotated = sum(divisor < UNROTATED for divisor in frequencies)
    known = (
        len({said[key] for key in SLIDING_WIDTHS}) == len(sliding) == len(full) == 1
        and (sliding == full or keys_are_values)
        and widths == [widths[0] * (1 + (doubled and i >= first_shared)) for i in range(layers)]
        and frequencies
        and list(frequencies) == [1.0] * rotated + [frequencies[-1]] * (len(frequencies) - rotated)
    )
    if not known:
        raise ModelError("the layers of this Gemma 4 differ in a way that is not known", where=str(header.path))
    table = header.tensors.get(TABLE)
    tables = {"vocab_size_per_layer_input": table.shape[0]} if table else {}
    return tables | {
        "layer_types": ["sliding_attention" if slides else "full_attention" for slides in pattern],
        "head_dim": said["attention.key_length_swa"],
        "global_head_dim": said["attention.key_length"],
        "num_key_value_heads": sliding.pop(),
        "num_global_key_value_heads": full.pop(),
        "attention_k_eq_v": keys_are_values,
        "intermediate_size": widths[0],
        "use_double_wide_mlp": doubled,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": said.get("rope.freq_base", 1_000_000.0),
                "partial_rotary_factor": rotated / len(frequencies),
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": said.get("rope.freq_base_swa", 10_000.0)},
        },
    }


def _each(value: int | list[int], layers: int) -> list[int]:
    return value if isinstance(value, list) else [value] * layers
