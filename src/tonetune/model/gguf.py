"""A GGUF file to a model directory, through transformers; run as a program so that both halves work side by side.

Usage: python -m tonetune.model.gguf tokenizer|weights FILE.gguf DIRECTORY
"""

import json
import sys
from pathlib import Path
from typing import Any


def write_tokenizer(gguf: Path, directory: Path) -> None:
    """Rebuild the tokenizer and write it with a post-processor that adds BOS once (older transformers add none)."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    bos = (tokenizer.bos_token, tokenizer.bos_token_id)
    if bos[1] is not None:
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{bos[0]} $A", pair=f"{bos[0]} $A $B", special_tokens=[bos]
        )
    tokenizer.save_pretrained(directory)


def write_weights(gguf: Path, directory: Path) -> None:
    """De-quantise all tensors and write them as bfloat16 safetensors, and config.json last: the sign of a whole set."""
    import torch
    import transformers

    quantized = getattr(transformers, "GgufConfig", None)  # 5.24 keeps the weights packed unless told otherwise
    options = {"quantization_config": quantized(dequantize=True)} if quantized else {}
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, output_loading_info=True, **options
    )
    model, report = loaded
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            sys.exit(f"{kind.replace('_', ' ')} in {gguf.name}: {', '.join(sorted(map(str, report[kind]))[:5])}")
    model.save_pretrained(directory)
    config_path = directory / "config.json"
    config = json.loads(config_path.read_text(encoding="utf-8"))
    config.pop("_name_or_path", None)
    config.pop("quantization_config", None)
    config_path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def read_whole_files() -> None:
    """Let gguf's reader slice a plain array instead of a memory map: it takes millions of slices, four times as fast.

    Changes numpy for the whole process, so only the program below does it.
    """
    import numpy as np

    np.memmap = lambda path, dtype=np.uint8, mode="r": np.fromfile(path, dtype=dtype)  # type: ignore[assignment, misc]


if __name__ == "__main__":
    read_whole_files()
    {"tokenizer": write_tokenizer, "weights": write_weights}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
