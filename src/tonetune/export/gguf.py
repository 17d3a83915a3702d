"""A merged classifier as a GGUF file, which llama.cpp runs as the language model that it was made from.

llama.cpp has no classifier head for these architectures. The head's rows stand in the embeddings instead, in the place
of tokens that no text has, and embeddings are the language model's head too: the logits of these tokens behind a text
are the classifier's. Names and order of tensors follow llama.cpp's own converter.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tonetune.errors import MissingExtraError, ModelError
from tonetune.export.gguf_vocabulary import Vocabulary, vocabulary_of
from tonetune.model.artefact import Loaded
from tonetune.rundir import writing

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

ARCHITECTURES = {"gemma2": "gemma2", "gemma3_text": "gemma3", "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""llama.cpp's architecture by family."""
PATTERNS = {"gemma2": 2, "gemma3": 6}
"""Every so many layers one looks at the whole text, where a file does not say otherwise."""
LAYERS_OF_LARGEST = {"gemma2": 46, "gemma3": 62}
"""In the size of so many layers llama.cpp takes the attention scale from hidden width over heads."""
TYPES = {"float32": "F32", "float16": "F16", "q8_0": "Q8_0"}
"""ggml's type of the matrices by number format; norms and other vectors stay float32."""
KNOWN_ROPE = {"default", "linear", "llama3"}
"""Rotary embeddings of layers that see the whole text; those of sliding layers are never stretched."""
NO_CAP = 1e4
"""A soft cap that leaves logits of a classifier as they are, to 1e-6, for an architecture that must have one."""
EMBEDDINGS = "model.embed_tokens.weight"


def write_gguf(path: Path, loaded: Loaded, *, precision: str, facts: dict[str, Any]) -> list[int]:
    """Write a merged classifier with matrices in `precision`; the ids of the tokens whose logits are the labels'.

    `facts` are put into the file as values below "tonetune.". Raises MissingExtraError without the gguf package,
    ModelError for a model that llama.cpp would compute otherwise, DiskError where the file cannot be written.
    """
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise MissingExtraError("gguf", needed_for="GGUF export") from error
    logging.getLogger("gguf").setLevel(logging.WARNING)
    family, config = loaded.base.family.name, loaded.base.body.config
    if family not in ARCHITECTURES:
        what = f"{loaded.base.family.title} is not written as GGUF: {', '.join(ARCHITECTURES)} are"
        raise ModelError(what, hint="--to merged or --to onnx")
    architecture = ARCHITECTURES[family]
    values = _header(architecture, config)
    vocabulary = vocabulary_of(loaded.base.tokenizer, config.vocab_size, family=family)
    around = {i for part in loaded.tokenizer.around for i in part}
    label_ids = vocabulary.spare(len(loaded.labels), taken=around)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"{Path(loaded.manifest.base).name} tuned by tonetune")
    writer.add_file_type(gguf.LlamaFileType[f"{'ALL' if precision == 'float32' else 'MOSTLY'}_{TYPES[precision]}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for name, value in values.items():
        _add(writer, f"{architecture}.{name}", value)
    for name, value in (facts | {"label_ids": label_ids}).items():
        _add(writer, f"tonetune.{name}", value)
    _add_vocabulary(writer, vocabulary, loaded)
    (number,) = (number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    for name, tensor in _tensors(loaded, architecture, label_ids):
        stem, _, ending = name.rpartition(".")
        _add_tensor(writer, f"{names.get_name(stem)}.{ending}", tensor.numpy(), TYPES[precision])
    if (divisors := _rope_divisors(config)) is not None:
        writer.add_tensor("rope_freqs.weight", divisors)
    with writing(path):
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return label_ids


def _header(architecture: str, config: "PreTrainedConfig") -> dict[str, Any]:
    """The model's shape. Raises ModelError for what the file could not say."""
    heads, width = config.num_attention_heads, getattr(config, "head_dim", None)
    width = width or config.hidden_size // heads
    rope, sliding = _rope(config)
    values: dict[str, Any] = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": width,
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if rope["rope_type"] == "linear":
        values |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if architecture not in PATTERNS:
        return values
    scale = config.hidden_size // heads if config.num_hidden_layers == LAYERS_OF_LARGEST[architecture] else width
    if config.query_pre_attn_scalar != scale:
        what = f"query_pre_attn_scalar is {config.query_pre_attn_scalar}, and llama.cpp computes with {scale}"
        raise ModelError(what, where="config.json", hint="--to merged or --to onnx")
    if sliding is not None:
        values["rope.freq_base_swa"] = float(sliding["rope_theta"])
    values["attention.sliding_window"] = config.sliding_window
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    if slides != [(i + 1) % PATTERNS[architecture] != 0 for i in range(len(slides))]:
        values["attention.sliding_window_pattern"] = slides
    if architecture == "gemma2":
        values |= {"attn_logit_softcapping": float(config.attn_logit_softcapping), "final_logit_softcapping": NO_CAP}
    return values


def _rope(config: "PreTrainedConfig") -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Rotary embeddings of full layers, and of sliding ones where they differ. Raises ModelError for unknown kinds."""
    rope = config.rope_parameters
    full, sliding = rope.get("full_attention", rope), rope.get("sliding_attention")
    odd = {full["rope_type"]} - KNOWN_ROPE | ({sliding["rope_type"]} - {"default"} if sliding else set())
    if odd:
        what = f"rotary embeddings of the kind {', '.join(sorted(odd))} are not written as GGUF"
        raise ModelError(what, where="config.json", hint="--to merged or --to onnx")
    return full, sliding


def _rope_divisors(config: "PreTrainedConfig") -> NDArray[np.float32] | None:
    """By how much Llama 3's scaling divides each frequency, shape (width / 2,); None where nothing is scaled so."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope, _ = _rope(config)
    if rope["rope_type"] != "llama3":
        return None
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    width = 2 * len(scaled)
    plain = rope["rope_theta"] ** -(np.arange(0, width, 2) / width)
    return np.asarray(plain / scaled.numpy(), dtype=np.float32)


def _tensors(loaded: Loaded, architecture: str, label_ids: list[int]) -> Iterator[tuple[str, Tensor]]:
    """The text model's tensors by their names in transformers, as llama.cpp wants their values."""
    state = loaded.classifier.state_dict()
    heads = {
        "q_proj": loaded.base.body.config.num_attention_heads,
        "k_proj": loaded.base.body.config.num_key_value_heads,
    }
    for name, stored in state.items():
        if name == "score.weight":
            continue
        tensor = stored.float().cpu()
        if name.endswith("norm.weight") and loaded.base.family.norm_offset:
            tensor = tensor + loaded.base.family.norm_offset
        elif name == EMBEDDINGS:
            tensor = tensor.clone()
            tensor[label_ids] = state["score.weight"].float().cpu()
        elif architecture == "llama" and (part := name.split(".")[-2]) in heads:
            tensor = _interleaved(tensor, heads[part])
        yield name, tensor


def _interleaved(tensor: Tensor, num_heads: int) -> Tensor:
    """Rows of Llama's queries or keys in the order of llama.cpp's rotary embedding: pairs beside each other."""
    halves = tensor.reshape(num_heads, 2, len(tensor) // num_heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def _add_tensor(writer: Any, name: str, tensor: NDArray[np.float32], kind: str) -> None:
    import gguf

    wanted = gguf.GGMLQuantizationType["F32" if tensor.ndim == 1 else kind]
    if tensor.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:
        wanted = gguf.GGMLQuantizationType.F16
    writer.add_tensor(name, gguf.quantize(np.ascontiguousarray(tensor), wanted), raw_dtype=wanted)


def _add(writer: Any, name: str, value: Any) -> None:
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    add.get(type(value), writer.add_array)(name, value)


def _add_vocabulary(writer: Any, vocabulary: Vocabulary, loaded: Loaded) -> None:
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if vocabulary.model == "llama":
        writer.add_token_scores(vocabulary.scores)
        writer.add_add_space_prefix(vocabulary.space_prefix)
    else:
        writer.add_token_merges(vocabulary.merges)
    config, base = loaded.base.body.config, loaded.base
    eos = config.eos_token_id
    if eos is not None:
        writer.add_eos_token_id(eos[0] if isinstance(eos, list) else eos)
    writer.add_pad_token_id(base.pad_id)
    if base.bos_id is not None:
        writer.add_bos_token_id(base.bos_id)
    writer.add_add_bos_token(base.bos_id is not None)
