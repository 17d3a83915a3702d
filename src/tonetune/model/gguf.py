"""A GGUF file to a model directory, through transformers; run as a program so that both halves work side by side.

Usage: python -m tonetune.model.gguf tokenizer|weights FILE.gguf DIRECTORY
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tonetune.errors import ModelError, TrainingError
from tonetune.model.demo import DEMO
from tonetune.model.families import FAMILIES
from tonetune.model.gguf_config import ROPE_FREQUENCIES, config_of
from tonetune.model.gguf_header import GgufHeader, read_header
from tonetune.rundir import writing

SUFFIX = ".gguf"
ENDINGS = (".weight", ".bias")
WORDS_BEFORE_MERGES = {"llama3", "llama-v3", "llama-bpe", "tekken"}
"""Vocabularies, by llama.cpp's name, in which a word that is a token is never put together from parts."""


def is_gguf(base: str) -> bool:
    """Whether a base is a GGUF file: the demo is one, and others have the ending."""
    return base == DEMO or base.lower().endswith(SUFFIX)


def convert(file: Path, directory: Path) -> None:
    """Write tokenizer and weights of the file into `directory`, side by side: each reads the file for itself.

    Raises ModelError where that fails, DiskError and TrainingError where disk or memory run out.
    """
    command = [sys.executable, "-m", "tonetune.model.gguf"]
    parts: list[subprocess.Popen[str]] = []
    try:
        for name in PARTS:
            arguments = [*command, name, str(file), str(directory)]
            parts.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        errors = [part.communicate()[1] for part in parts]
    except OSError as error:
        raise ModelError(f"the file could not be converted: {error}", where=str(file)) from error
    finally:  # an interrupted run leaves no program behind
        for part in parts:
            part.kill()
            part.wait()
    for part, text in zip(parts, errors, strict=True):
        if part.returncode:
            _explain(file, directory, part.returncode, text.strip().splitlines()[-1:])


def conversion_s(header: GgufHeader) -> int:
    """About how long `convert` takes, in seconds: for a large vocabulary, then 100 MiB of weights a second."""
    return 20 + (header.unpacked_bytes >> 20) // 100


def _explain(file: Path, directory: Path, exit_code: int, last_lines: list[str]) -> None:
    """Raise the error of a half that failed."""
    reason = last_lines[0] if last_lines else f"exit code {exit_code}"
    if os.strerror(errno.ENOSPC) in reason:
        with writing(directory):
            raise OSError(errno.ENOSPC, reason)
    if exit_code == -signal.SIGKILL or reason.startswith("MemoryError"):
        raise TrainingError(
            "memory ran out while the file was converted",
            where=str(file),
            hint=f"{read_header(file).unpacked_bytes >> 20:,} MiB of weights must fit: choose a smaller model",
        )
    raise ModelError(f"the file could not be converted: {reason}", where=str(file))


def write_tokenizer(file: Path, directory: Path) -> None:
    """Rebuild the tokenizer and write it, made right where transformers does not.

    Its post-processor adds BOS once, for families that have it; versions of transformers differ in that. Tokens that
    are not in the file are left out, which transformers adds as the defaults of a class.
    """
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    header = read_header(file)
    config = config_of(header)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(file.parent, gguf_file=file.name)
    bos = (tokenizer.bos_token, tokenizer.bos_token_id)
    if bos[1] is not None and FAMILIES[config["model_type"]].has_bos:
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{bos[0]} $A", pair=f"{bos[0]} $A $B", special_tokens=[bos]
        )
    tokenizer.save_pretrained(directory)
    path = directory / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["added_tokens"] = [t for t in document["added_tokens"] if t["id"] < config["vocab_size"]]
    if header.metadata.get("tokenizer.ggml.pre") in WORDS_BEFORE_MERGES:
        document["model"]["ignore_merges"] = True
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def write_weights(file: Path, directory: Path) -> None:
    """Unpack all tensors and write them as safetensors, in the file's number format or bfloat16, and config.json."""
    import transformers

    header = read_header(file)
    config = transformers.AutoConfig.for_model(**config_of(header))
    quantized = getattr(transformers, "GgufConfig", None)  # 5.24 keeps the weights packed unless told otherwise
    options = {"quantization_config": quantized(dequantize=True)} if quantized else {}
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        config=config,
        dtype=header.dtype,
        trust_remote_code=False,
        output_loading_info=True,
        **options,
    )
    model, report = loaded
    report["missing_keys"] = _fill(header, model, set(report["missing_keys"]))
    report["unused_keys"] = _unused(header, model)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "unused_keys"):
        if report[kind]:
            sys.exit(f"{kind.replace('_', ' ')} in {file.name}: {', '.join(sorted(map(str, report[kind]))[:5])}")
    model.save_pretrained(directory)
    config_path = directory / "config.json"
    document = json.loads(config_path.read_text(encoding="utf-8"))
    document.pop("_name_or_path", None)
    document.pop("quantization_config", None)
    config_path.write_text(json.dumps(document, indent=2), encoding="utf-8")


def _names(header: GgufHeader, model: Any) -> dict[str, str]:
    """The file's name for each tensor of the model; one without an ending, as Gemma 4's scalars, is a weight there."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    (number,) = (number for number, name in MODEL_ARCH_NAMES.items() if name == header.architecture)
    names = get_tensor_name_map(number, model.config.num_hidden_layers)
    found = {key: names.get_name(key, try_suffixes=ENDINGS) for key in model.state_dict()}
    return {key: f"{name}{'' if key.endswith(ENDINGS) else '.weight'}" for key, name in found.items()}


def _fill(header: GgufHeader, model: Any, missing: set[str]) -> set[str]:
    """Put in what transformers did not find by its name; what is then still missing."""
    names, tensors = _names(header, model), model.state_dict()
    found = {key for key in missing if names.get(key) in header.tensors}
    for key in found:
        tensors[key].copy_(tensors[key].new_tensor(header.floats(names[key])))
    return missing - found


def _unused(header: GgufHeader, model: Any) -> set[str]:
    """Tensors of the file that the model has no place for; transformers passes over them in silence.

    Keys and values of layers that reuse those of others are in some checkpoints, and nothing reads them.
    """
    unused = header.tensors.keys() - set(_names(header, model).values()) - {ROPE_FREQUENCIES}
    first_shared = model.config.num_hidden_layers - getattr(model.config, "num_kv_shared_layers", 0)
    idle = re.compile(r"blk\.(\d+)\.attn_(k|v|k_norm)\.weight")
    return {name for name in unused if not ((found := idle.fullmatch(name)) and int(found[1]) >= first_shared)}


PARTS = {"tokenizer": write_tokenizer, "weights": write_weights}


def slice_plain_arrays() -> None:
    """Let gguf's reader slice a plain view of its memory map: it takes millions of slices, four times as fast.

    Changes numpy for the whole process, so only the program below does it.
    """
    import numpy as np

    mapped = np.memmap
    np.memmap = lambda *args, **options: mapped(*args, **options).view(np.ndarray)  # type: ignore[assignment, misc]


if __name__ == "__main__":
    slice_plain_arrays()
    PARTS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
