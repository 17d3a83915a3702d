"""The classifier without adapters: merged in float32, written for transformers' own classes, read back by ours."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tonetune.bundle import AGAIN, Bundle
from tonetune.data.tokens import TextTokenizer
from tonetune.errors import ModelError
from tonetune.labels import LabelSet
from tonetune.model.artefact import Loaded, problem_type
from tonetune.model.checkpoint import read_checkpoint
from tonetune.model.classifier import Classifier
from tonetune.model.families import OWN_CLASS, family_of
from tonetune.model.loading import load_body, read_text_config
from tonetune.model.source import checked_directory
from tonetune.rundir import write_json, writing

SHARD_SIZE = "5GB"


@dataclass(frozen=True)
class Merged:
    """A merged classifier ready to score: model, tokenizer with template, labels, and its bundle's manifest."""

    classifier: Classifier
    tokenizer: TextTokenizer
    labels: LabelSet
    manifest: Bundle


def merge(classifier: Classifier) -> None:
    """Put plain layers in place of the adapted ones: W + scale · B A, or DoRA's own formula.

    Exact to rounding in float32 alone. Raises ValueError of PEFT where a merged weight is not finite.
    """
    from peft.tuners.lora import LoraLayer

    adapted = {name: module for name, module in classifier.named_modules() if isinstance(module, LoraLayer)}
    for name, module in adapted.items():
        module.merge(safe_merge=True)
        parent, _, leaf = name.rpartition(".")
        setattr(classifier.get_submodule(parent), leaf, module.get_base_layer())


def write_merged(directory: Path, loaded: Loaded, *, dtype: torch.dtype) -> list[str]:
    """Write weights (cast to `dtype`, the head in float32) and config of a merged classifier; the files' names.

    The layout is the text model's own, without towers. Raises DiskError where it cannot be written.
    """
    from huggingface_hub import save_torch_state_dict

    tensors = {
        name: (tensor if name.startswith("score.") else tensor.to(dtype)).contiguous()
        for name, tensor in loaded.classifier.state_dict().items()
    }
    with writing(directory):
        save_torch_state_dict(tensors, directory, max_shard_size=SHARD_SIZE, metadata={"format": "pt"})
    write_json(directory / "config.json", _config(loaded, dtype))
    return sorted(path.name for path in directory.iterdir())


def _config(loaded: Loaded, dtype: torch.dtype) -> dict[str, Any]:
    base, names = loaded.base, loaded.labels.names
    config: dict[str, Any] = json.loads(base.body.config.to_json_string(use_diff=False))
    return config | {
        "architectures": [base.family.classifier or OWN_CLASS],
        "dtype": str(dtype).removeprefix("torch."),
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "problem_type": problem_type(loaded.manifest.task),
        "pad_token_id": base.pad_id,
        "attn_implementation": loaded.manifest.attention,
        "use_cache": False,
    }


def load_merged(directory: Path, *, device: torch.device) -> Merged:
    """A merged bundle, ready to score. Raises ModelError where its files were changed or do not fit together."""
    bundle = Bundle.read(directory)
    source = checked_directory(str(directory), directory)
    family = family_of(source.config, where=str(directory))
    if not isinstance(getattr(torch, bundle.dtype, None), torch.dtype):
        raise ModelError(f"{bundle.dtype} is no number format of merged weights", where=str(directory), hint=AGAIN)
    if "quantization_config" in source.config:  # whose libraries transformers would load
        raise ModelError("a merged bundle is never quantised", where=f"{directory}/config.json", hint=AGAIN)
    checkpoint = read_checkpoint(directory)
    body = load_body(
        source,
        read_text_config(source),
        checkpoint,
        dtype=getattr(torch, bundle.dtype),
        attention=family.kernel,
    )
    classifier = Classifier(body, checkpoint.tensor("score.weight")).requires_grad_(False).eval().to(device)
    tokenizer = TextTokenizer.read(directory, **bundle.encoding)
    return Merged(classifier, tokenizer, LabelSet(bundle.labels), bundle)
