"""One table of facts per model family: what tonetune knows before it opens a checkpoint."""

from dataclasses import dataclass
from typing import Any

from tonetune.errors import ModelError


@dataclass(frozen=True)
class Family:
    """Facts of one `model_type` whose checkpoint holds a text model alone.

    `name` is the `model_type`, `classifier` transformers' own class for the exported layout. `kernel` is the attention
    kernel that computes what the family was trained with, `kernel_reason` why. `has_bos` says whether texts begin with
    BOS. `attention` (query, value, output) and `linear` (all) name the linear layers inside a decoder layer that the
    adapter's targets of these names mean.
    """

    name: str
    classifier: str
    kernel: str = "sdpa"
    kernel_reason: str = "fused attention computes this family exactly"
    has_bos: bool = True
    attention: tuple[str, ...] = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj")
    linear: tuple[str, ...] = (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    )


FAMILIES = {
    family.name: family
    for family in (
        Family("gemma", "GemmaForSequenceClassification"),
        Family(
            "gemma2",
            "Gemma2ForSequenceClassification",
            kernel="eager",
            kernel_reason="fused attention leaves out the soft cap of Gemma 2's attention scores",
        ),
        Family("gemma3_text", "Gemma3TextForSequenceClassification"),
        Family("llama", "LlamaForSequenceClassification"),
        Family("mistral", "MistralForSequenceClassification"),
        Family("qwen2", "Qwen2ForSequenceClassification", has_bos=False),
        Family("qwen3", "Qwen3ForSequenceClassification", has_bos=False),
    )
}


def family_of(config: dict[str, Any], *, where: str) -> Family:
    """The family of a config.json. Raises ModelError for one that tonetune does not know."""
    model_type = config.get("model_type")
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise ModelError(
        f"model_type {model_type!r} is not supported; supported are {', '.join(FAMILIES)}",
        where=f"{where}/config.json",
        hint="choose a text-only checkpoint of one of these families",
    )
