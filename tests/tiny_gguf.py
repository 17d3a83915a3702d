"""GGUF files of the tiny models, written with the gguf package by the conventions of llama.cpp's converter.

Norms of Gemma 2 and 3 are stored plus one, rows of Llama's queries and keys in the order of its rotary embedding, one
dimension as float32, rows whose length no block divides as float16. The vocabulary is padded to the embeddings.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tiny
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

ARCHITECTURES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gemma4_text": "gemma4",
}
"""Architecture of a file by the family of its model."""

SIX_LAYERS = {"num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
"""A Gemma 3 whose pattern of layers is the one that files leave unsaid."""


PRE_TOKENIZER = "gpt-2"


def write_source(directory: Path, family: str, **changes: Any) -> Path:
    """A tiny model that a GGUF file can hold, its Gemma 4 with a scalar of its own for each layer; the directory."""
    tiny.write_model(directory, family, **(SIX_LAYERS if family == "gemma3_text" else {}), **changes)
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for number, name in enumerate(name for name in tensors if name.endswith("layer_scalar")):
        tensors[name] = np.full(1, 0.5 + number / 8, dtype=np.float32)
    save_file(tensors, path, {"format": "pt"})
    return directory


def write_gguf(path: Path, model: Path, *, kind: str = "F32", **metadata: Any) -> Path:
    """The model of a directory as a GGUF file, its matrices as `kind` of ggml's types; the file.

    `metadata` replaces values below the architecture, by their names with "__" for dots; None leaves one out.
    """
    config = json.loads((model / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {config['model_type']}")
    tensors = load_file(model / "model.safetensors")
    values = header(config) | (gemma4_header(config, tensors) if architecture == "gemma4" else {})
    values |= {name.replace("__", "."): value for name, value in metadata.items()}
    for name, value in values.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        if value is not None:
            add.get(type(value), writer.add_array)(f"{architecture}.{name}", value)
    add_vocabulary(writer, model, config["vocab_size"])
    (number,) = (number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config["num_hidden_layers"])
    for name, tensor in tensors.items():
        stem, _, part = (name if name.endswith((".weight", ".bias")) else f"{name}.weight").rpartition(".")
        add_tensor(writer, f"{names.get_name(stem)}.{part}", stored(name, tensor, config), kind)
    if (frequencies := rope_frequencies(config, values["attention.key_length"])) is not None:
        writer.add_tensor("rope_freqs.weight", frequencies)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def header(config: dict[str, Any]) -> dict[str, Any]:
    """What the converter says of a model's shape."""
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    values = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if rope["rope_type"] in ("linear", "yarn"):
        values |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "yarn":
        values["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if config["model_type"].startswith("gemma"):
        values["attention.sliding_window"] = config["sliding_window"]
        for name in ("attn_logit_softcapping", "final_logit_softcapping"):
            if config.get(name) is not None:
                values[name] = float(config[name])
    if config["model_type"] == "llama":
        values |= {"rope.dimension_count": width, "vocab_size": config["vocab_size"]}
    return values


def gemma4_header(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the converter says of a Gemma 4's two kinds of layers."""
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    layers, shared = len(slides), config["num_kv_shared_layers"]
    full = slides.index(False)
    width = len(tensors[f"model.layers.{full}.self_attn.q_norm.weight"])
    values = {
        "attention.shared_kv_layers": shared,
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "attention.sliding_window_pattern": slides,
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": width,
        "attention.key_length_swa": config["head_dim"],
        "attention.value_length_swa": config["head_dim"],
        "rope.dimension_count_swa": config["head_dim"],
        "rope.freq_base_swa": config["rope_parameters"]["sliding_attention"]["rope_theta"],
    }
    heads = len(tensors[f"model.layers.{full}.self_attn.k_proj.weight"]) // width
    if heads != config["num_key_value_heads"]:
        values["attention.head_count_kv"] = [config["num_key_value_heads"] if s else heads for s in slides]
    if config["use_double_wide_mlp"]:
        width = config["intermediate_size"]
        values["feed_forward_length"] = [width * (1 + (i >= layers - shared)) for i in range(layers)]
    return values


def add_vocabulary(writer: gguf.GGUFWriter, model: Path, num_rows: int) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    kinds = [gguf.TokenType.CONTROL if token in tiny.SPECIALS else gguf.TokenType.NORMAL for token in tokens]
    padding = [f"[PAD{i}]" for i in range(len(tokens), num_rows)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list([*tokens, *padding])
    writer.add_token_types([*kinds, *[gguf.TokenType.UNUSED] * len(padding)])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_pad_token_id(tiny.PAD)
    writer.add_eos_token_id(tiny.EOS)
    writer.add_bos_token_id(tiny.BOS)
    writer.add_unk_token_id(tiny.UNK)


def stored(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """A tensor as files of its architecture hold it."""
    if config["model_type"] in ("gemma2", "gemma3_text") and name.endswith("norm.weight"):
        return tensor + 1
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    if config["model_type"] == "llama" and (key := heads.get(name.split(".")[-2])):
        num_heads = config[key]
        halves = tensor.reshape(num_heads, 2, len(tensor) // num_heads // 2, -1)
        return halves.swapaxes(1, 2).reshape(tensor.shape)
    return tensor


def add_tensor(writer: gguf.GGUFWriter, name: str, tensor: np.ndarray, kind: str) -> None:
    wanted = gguf.GGMLQuantizationType[kind]
    if tensor.ndim == 1:
        wanted = gguf.GGMLQuantizationType.F32
    elif tensor.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:
        wanted = gguf.GGMLQuantizationType.F16
    writer.add_tensor(name, gguf.quantize(np.ascontiguousarray(tensor), wanted), raw_dtype=wanted)


def rope_frequencies(config: dict[str, Any], width: int) -> np.ndarray | None:
    """By how much each frequency of `width` dimensions is divided, from the frequencies themselves where it is so."""
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = config["rope_parameters"]
    if config["model_type"] == "gemma4_text":
        rotated = int(rope["full_attention"]["partial_rotary_factor"] * width / 2)
        return np.array([1.0] * rotated + [1e30] * (width // 2 - rotated), dtype=np.float32)
    if rope.get("rope_type") != "llama3":
        return None
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](AutoConfig.for_model(**config))
    plain = rope["rope_theta"] ** -(np.arange(0, width, 2) / width)
    return (plain / scaled.numpy()).astype(np.float32)
