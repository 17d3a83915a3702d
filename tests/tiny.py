"""Tiny things for tests, made and never fetched: a tokenizer, a random model of each family, an emotion corpus.

The tokenizer reads any UTF-8 by bytes; Chinese characters, and the words of words.tsv and of the corpus behind a blank,
are one token each. The models are random, so they say nothing sensible: load them with `gate=False`, or in a config
`model.load_gate: off`. The corpus can be learnt: every text holds words of its label.
"""

import csv
import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
PAD, EOS, BOS, UNK = range(4)
VOCABULARY = 2048  # embeddings; more than the tokenizer has ids, as in real models
WINDOW = 8  # tokens a sliding layer looks back

KV = {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": WINDOW}
PLE = {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 4}
VISION: dict[str, dict[str, Any]] = {
    "gemma3": {"image_size": 28, "patch_size": 14},
    "gemma4": {"num_key_value_heads": 2, "head_dim": 8},
}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}),
    "gemma3_text": ("gemma3_text", {}),
    "gemma3": ("gemma3", {}),
    "gemma3n_text": (
        "gemma3n_text",
        {**KV, **PLE, "num_kv_shared_layers": 2, "intermediate_size": [48] * 4, "laurel_rank": 4, "altup_num_inputs": 2}
        | {"activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0], "final_logit_softcapping": 5.0},
    ),
    "gemma4_text": ("gemma4_text", {**KV, "hidden_size_per_layer_input": 0, "global_head_dim": 512}),
    "gemma4": (  # as E2B and E4B: shared keys and values, embeddings per layer, a soft cap
        "gemma4",
        {**KV, **PLE, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "global_head_dim": 32}
        | {"final_logit_softcapping": 5.0},
    ),
    "gemma4_moe": (  # as 26B-A4B: values are the keys in full layers, experts beside the MLP
        "gemma4",
        {**KV, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
        | {"global_head_dim": 32, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2}
        | {"moe_intermediate_size": 8, "use_bidirectional_attention": "vision"},
    ),
    "gemma4_unified": ("gemma4_unified", {**KV, "global_head_dim": 32, "num_global_key_value_heads": 1}),
    "llama": ("llama", {}),
    "mistral": ("mistral", {"sliding_window": WINDOW}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
}
"""Model type and what is special, by the name that `write_model` takes; those of `MULTIMODAL` types have towers."""

FAMILIES = tuple(SHAPES)
MULTIMODAL = {"gemma3", "gemma4", "gemma4_unified"}
TIED = {name for name in FAMILIES if name.startswith("gemma")} | {"qwen2"}

CUES = {
    "en": {
        "joy": ("happy", "glad", "wonderful", "laughing"),
        "sadness": ("sad", "crying", "lonely", "lost"),
        "anger": ("angry", "furious", "unfair", "shouting"),
        "fear": ("afraid", "scared", "trembling", "danger"),
    },
    "zh": {
        "开心": ("开心", "高兴", "笑了", "真好"),
        "悲伤": ("难过", "哭了", "孤单", "失去"),
        "愤怒": ("愤怒", "生气", "可恶", "吵架"),
        "害怕": ("害怕", "恐惧", "发抖", "危险"),
    },
}
FILLERS = {
    "en": "the a my our today yesterday morning evening train house friend letter dinner weather phone doctor "
    "brother road film city window and then because when after we she he they was were felt so very about".split(),
    "zh": "今天 昨天 早上 晚上 我 我们 她 他 朋友 火车 房子 信 晚饭 天气 电话 医生 弟弟 路上 电影 城市 因为 后来 "
    "时候 觉得 一直 非常 真的 有点 关于 听说".split(),
}


def tokenizer(*, bos: bool = True, eos: bool = False) -> Tokenizer:
    """A byte-level tokenizer whose own post-processor adds BOS and EOS as told."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: i for i, name in enumerate([*SPECIALS, *alphabet])}
    merges: list[tuple[str, str]] = []

    def add(pieces: list[str]) -> str:
        """Merge pieces from the left; the one token they become."""
        whole = pieces[0]
        for piece in pieces[1:]:
            if whole + piece not in vocabulary:
                vocabulary[whole + piece] = len(vocabulary)
                merges.append((whole, piece))
            whole += piece
        return whole

    words = sorted(_words())
    characters = {c: add(_pieces(c)) for c in sorted({c for word in words for c in word if not c.isascii()})}
    for word in words:
        add([characters[c] for c in word] if not word.isascii() else _pieces(f" {word}"))
    result = Tokenizer(models.BPE(vocabulary, merges))
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    result.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    single = f"{'<bos> ' if bos else ''}$A{' <eos>' if eos else ''}"
    if bos or eos:
        result.post_processor = TemplateProcessing(single=single, special_tokens=[("<bos>", BOS), ("<eos>", EOS)])
    return result


def _pieces(text: str) -> list[str]:
    """The byte-level letters of a text."""
    (piece,) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return list(piece[0])


def _words() -> set[str]:
    lines = files("tonetune.data").joinpath("words.tsv").read_text(encoding="utf-8").splitlines()
    cells = [cell for line in lines if not line.startswith("#") for cell in line.split("\t")]
    words = {word for cell in cells for name in cell.split("|") for word in name.split()}
    corpus = [*FILLERS.values(), *(cues for by_label in CUES.values() for cues in by_label.values())]
    return words | {word for group in corpus for word in group}


def write_model(directory: Path, family: str, *, seed: int = 0, **changes: Any) -> Path:
    """A random model of two or four layers as `save_pretrained` writes it, tokenizer included; the directory.

    Sliding layers look back `WINDOW` tokens. Those in `TIED` share the embeddings with the language-model head, and
    those of a `MULTIMODAL` type come with their towers. `changes` go to the text model's config.
    """
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config(family, **changes), dtype=torch.float32)
    model.save_pretrained(directory)
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **names).save_pretrained(directory)
    return directory


def config(family: str, **changes: Any) -> Any:
    """transformers' config of a tiny model."""
    from transformers import AutoConfig

    model_type, special = SHAPES[family]
    values: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,  # large enough that every part of the model shows in the logits
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
        "tie_word_embeddings": family in TIED,
    }
    if family in ("gemma2", "gemma3_text", "gemma3"):
        values |= {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
        values |= {"query_pre_attn_scalar": 16}
    values |= {**special, **changes}
    if model_type not in MULTIMODAL:
        return AutoConfig.for_model(model_type, **values)
    tower = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {"vision_config": tower | VISION[model_type]} if model_type in VISION else {}
    return AutoConfig.for_model(model_type, text_config=values, **vision)


def language_model(directory: Path, **settings: Any) -> Any:
    """transformers' language model of a directory's text model, its tensors put in by hand from below their prefix."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    text_config = AutoConfig.from_pretrained(directory).get_text_config()
    model = AutoModelForCausalLM.from_config(text_config, attn_implementation="eager", **settings).eval()
    tensors = {k: v for file in sorted(directory.glob("*.safetensors")) for k, v in load_file(file).items()}
    (prefix,) = (k.removesuffix("embed_tokens.weight") for k in tensors if k.endswith("embed_tokens.weight"))
    body = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    model.model.load_state_dict({k: v for k, v in body.items() if "lm_head" not in k}, strict=True)
    if "lm_head.weight" in tensors:
        model.lm_head.weight.data = tensors["lm_head.weight"]
    else:
        model.tie_weights()
    return model


def load(directory: Path, *, gate: bool = False) -> Any:
    """A model as tonetune loads it: a `Base` in float32 on the CPU, with its family's attention."""
    import torch

    from tonetune.model.families import family_of
    from tonetune.model.loading import load_base
    from tonetune.model.source import find_base

    source = find_base(str(directory))
    kernel = family_of(source.config, where=str(directory)).kernel
    return load_base(source, dtype=torch.float32, device=torch.device("cpu"), attention=kernel, gate=gate)


def emotion_rows(language: str, num_rows: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """Distinct (text, label) rows in "en" or "zh", labels in turn: fillers, and among them two words of the label."""
    rng = random.Random(seed)
    labels = list(CUES[language])
    glue = " " if language == "en" else ""
    texts: dict[str, str] = {}
    while len(texts) < num_rows:
        label = labels[len(texts) % len(labels)]
        words = rng.choices(FILLERS[language], k=rng.randint(3, 9))
        for cue in rng.sample(CUES[language][label], k=2):
            words.insert(rng.randint(0, len(words)), cue)
        texts.setdefault(glue.join(words), label)
    return list(texts.items())


def emotion_sets(language: str, num_rows: int, *, seed: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    """Distinct rows as `emotion_rows` makes them, each of any number of labels, in the order of `CUES`."""
    rng = random.Random(seed)
    glue = " " if language == "en" else ""
    texts: dict[str, tuple[str, ...]] = {}
    while len(texts) < num_rows:
        labels = tuple(label for label in CUES[language] if rng.random() < 0.35)
        words = rng.choices(FILLERS[language], k=rng.randint(3, 9))
        for cue in (cue for label in labels for cue in rng.sample(CUES[language][label], k=2)):
            words.insert(rng.randint(0, len(words)), cue)
        texts.setdefault(glue.join(words), labels)
    return list(texts.items())


def write_sets(path: Path, rows: list[tuple[str, tuple[str, ...]]]) -> Path:
    """Rows of any number of labels as CSV with one column of 0 and 1 for each label; the path."""
    labels = list(dict.fromkeys(label for _, names in rows for label in names))
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", *labels), *([t, *(int(c in names) for c in labels)] for t, names in rows)])
    return path


def write_rows(path: Path, rows: list[tuple[str, str]]) -> Path:
    """Rows as CSV or, where `path` ends in .jsonl, as JSON lines, with the columns text and label; the path."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps({"text": t, "label": c}, ensure_ascii=False) + "\n" for t, c in rows)
        else:
            csv.writer(file).writerows([("text", "label"), *rows])
    return path
