"""One table of facts per model family: what tonetune knows before it opens a checkpoint."""

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tonetune.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

ATTENTION = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj")
LINEAR = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
TOWERS = {"vision_tower", "audio_tower", "multi_modal_projector", "embed_vision", "embed_audio", "vision_embedder"}
"""Parts of multimodal checkpoints that a text classifier leaves on disk."""
HEADS = {"lm_head", "score"}
"""What stands on the body, and is read by itself."""
NAMES_CODE = {
    "auto_map", "attn_implementation", "attn_implementation_internal", "experts_implementation",
    "experts_implementation_internal", "kernel_config", "use_kernels",
}  # fmt: skip
"""Keys of a config.json, "_" before them or not, by which transformers runs files of a model or kernels of the hub."""
MOST_LAYERS = 1000  # the largest models have a tenth of it
OWN_CLASS = "TonetuneForSequenceClassification"
"""What a saved config.json names where transformers has no classifier of the family: only tonetune reads it."""


@dataclass(frozen=True)
class Multimodal:
    """A checkpoint that holds the text model and towers for other senses.

    `name` is its `model_type`, `classifier` transformers' own class for it, which keeps the text model as `body`.
    """

    name: str
    classifier: str | None = None
    body: str = "model.language_model"


@dataclass(frozen=True)
class Family:
    """Facts of one text architecture.

    `name` is the `model_type` of its text model, `classifier` transformers' own sequence classifier of a text-only
    checkpoint, None where there is none. `multimodal` is the other layout that its checkpoints come in. `layers` is
    where the decoder layers are, below the text model; `attention` (query, value, output) and `linear` (all) name the
    linear layers inside one that the adapter's targets of these names mean. `kernels` are the attention kernels that
    compute what the family was trained with, the best first, and `kernel_reason` says why.

    `has_bos`: texts begin with BOS. `norm_offset`: what a norm adds to its stored weight. `attention_softcap` and
    `logit_softcap`: attention scores, and the language model's logits, pass through a tanh. `per_layer_embeddings`:
    layers can have embedding tables of their own. `shares_kv`: the last layers can reuse earlier keys and values.
    """

    name: str
    title: str
    classifier: str | None
    multimodal: Multimodal | None = None
    layers: str = "layers"
    attention: tuple[str, ...] = ATTENTION
    linear: tuple[str, ...] = LINEAR
    kernels: tuple[str, ...] = ("sdpa", "eager")
    kernel_reason: str = "fused attention computes this family exactly"
    has_bos: bool = True
    norm_offset: float = 0.0
    attention_softcap: bool = False
    logit_softcap: bool = False
    per_layer_embeddings: bool = False
    shares_kv: bool = False

    @property
    def kernel(self) -> str:
        """The attention kernel to take where the user names none."""
        return self.kernels[0]


_TABLE = (
    Family("gemma", "Gemma", "GemmaForSequenceClassification", norm_offset=1.0),
    Family(
        "gemma2",
        "Gemma 2",
        "Gemma2ForSequenceClassification",
        kernels=("eager",),
        kernel_reason="fused attention leaves out the soft cap of Gemma 2's attention scores",
        norm_offset=1.0,
        attention_softcap=True,
        logit_softcap=True,
    ),
    Family(
        "gemma3_text",
        "Gemma 3",
        "Gemma3TextForSequenceClassification",
        Multimodal("gemma3", "Gemma3ForSequenceClassification"),
        norm_offset=1.0,
    ),
    Family(
        "gemma3n_text",
        "Gemma 3n",
        None,
        Multimodal("gemma3n"),
        logit_softcap=True,
        per_layer_embeddings=True,
        shares_kv=True,
    ),
    Family(
        "gemma4_text",
        "Gemma 4",
        None,
        Multimodal("gemma4"),
        logit_softcap=True,
        per_layer_embeddings=True,
        shares_kv=True,
    ),
    Family(
        "gemma4_unified_text",
        "Gemma 4 unified",
        None,
        Multimodal("gemma4_unified"),
        logit_softcap=True,
        shares_kv=True,
    ),
    Family("llama", "Llama", "LlamaForSequenceClassification"),
    Family("mistral", "Mistral", "MistralForSequenceClassification"),
    Family("qwen2", "Qwen 2", "Qwen2ForSequenceClassification", has_bos=False),
    Family("qwen3", "Qwen 3", "Qwen3ForSequenceClassification", has_bos=False),
)

FAMILIES = {family.name: family for family in _TABLE}
BY_MODEL_TYPE = FAMILIES | {family.multimodal.name: family for family in _TABLE if family.multimodal}

DRAFTER = "it is a drafter, which guesses tokens for a larger model and understands no text by itself"
ENCODER_DECODER = "it is an encoder-decoder, and tonetune reads the last state of a decoder"
RELATIVES = {
    "gemma4_assistant": DRAFTER,
    "gemma4_unified_assistant": DRAFTER,
    "diffusion_gemma": "it is a diffusion model: its states do not follow from left to right",
    "t5gemma": ENCODER_DECODER,
    "t5gemma2": ENCODER_DECODER,
    "recurrent_gemma": "it is a recurrent model without the layers that the adapters are made for",
    "vaultgemma": "it was trained under differential privacy and lacks what Gemma 2 and 3 share, so nothing here fits",
    "shieldgemma2": "it is a classifier already, of images",
    "paligemma": "it is made to describe images",
    "embedding_gemma2": "it is an encoder of sentences, without a language model's words",
}
"""Models whose names look like a supported family, and why they are none."""


@dataclass(frozen=True)
class Layout:
    """How one checkpoint holds its family.

    `classifier` is transformers' own class for it, or None, and `body` the name of the text model inside that class and
    inside ours where there is none.
    """

    family: Family
    classifier: str | None
    body: str


def layout_of(config: dict[str, Any], *, where: str) -> Layout:
    """Family and layout of a config.json. Raises ModelError for a model that is not supported, with the reason."""
    model_type = config.get("model_type")
    family = BY_MODEL_TYPE.get(str(model_type))
    if family is None:
        reason = RELATIVES.get(str(model_type), f"supported are {', '.join(BY_MODEL_TYPE)}")
        raise ModelError(
            f"model_type {model_type!r} is not supported: {reason}",
            where=f"{where}/config.json",
            hint="choose a checkpoint of a supported family, such as google/gemma-3-270m or google/gemma-4-E2B",
        )
    several = family.multimodal
    if several and model_type == several.name:
        return Layout(family, several.classifier, several.body if several.classifier else "model")
    return Layout(family, family.classifier, "model")


def family_of(config: dict[str, Any], *, where: str) -> Family:
    """The family of a config.json. Raises ModelError as `layout_of` does."""
    return layout_of(config, where=where).family


def text_config(config: dict[str, Any], *, where: str) -> "PreTrainedConfig":
    """transformers' config of the text model that a config.json describes, every default filled in.

    Raises ModelError where transformers cannot read it, and for a model that reads texts in both directions.
    """
    from transformers import CONFIG_MAPPING

    place = f"{where}/config.json"
    try:
        found: PreTrainedConfig = (
            CONFIG_MAPPING[config["model_type"]].from_dict(_without_code(config)).get_text_config()
        )
    except Exception as error:  # config classes raise of every kind for senseless values
        short = textwrap.shorten(str(error) or type(error).__name__, 200)
        raise ModelError(f"config.json cannot be used: {short}", where=place) from error
    if not 1 <= found.num_hidden_layers <= MOST_LAYERS:
        what = f"num_hidden_layers is {found.num_hidden_layers}, expected 1 to {MOST_LAYERS}"
        raise ModelError(f"config.json cannot be used: {what}", where=place)
    if stored := config.get("quantization_config"):  # of a multimodal checkpoint, beside the text model's config
        found.quantization_config = stored
    if getattr(found, "use_bidirectional_attention", None) in (True, "all"):
        raise ModelError(
            "the model reads texts in both directions, and tonetune reads the last state of one that reads forward",
            where=place,
            hint="choose the language model that it was made from",
        )
    return found


def _without_code(value: Any) -> Any:
    """A config without the keys, at any depth, that name code of the hub or of the model's own."""
    if isinstance(value, dict):
        return {key: _without_code(item) for key, item in value.items() if key.lstrip("_") not in NAMES_CODE}
    return [_without_code(item) for item in value] if isinstance(value, list) else value


def check_kernel(family: Family, requested: str) -> None:
    """Raises ConfigError for an attention kernel that would compute something else than the family was trained with."""
    if requested not in ("auto", *family.kernels):
        problem = f"{requested} is wrong for {family.title}: {family.kernel_reason}"
        raise ConfigError([problem], where="model.attention", hint=f"{' or '.join(family.kernels)}, or auto")
