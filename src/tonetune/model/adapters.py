"""LoRA on explicit module names, and the audit of what was adapted."""

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tonetune.errors import ConfigError
from tonetune.model.families import Family
from tonetune.model.quantization import num_elements

if TYPE_CHECKING:
    from peft import LoraConfig

ADAPTER = "default"


@dataclass(frozen=True)
class AdaptedLayer:
    """One linear layer with an adapter: its width in, width out, and the adapter's trainable parameters."""

    name: str
    inputs: int
    outputs: int
    rank: int
    parameters: int


def target_names(body: nn.Module, family: Family, targets: str | Sequence[str]) -> list[str]:
    """Full names, below the classifier, of the linear layers to adapt, in the model's order.

    `targets` is "attention" (query, value, output), "all-linear", or a list of layer names such as "q_proj" or
    "self_attn.q_proj". Raises ConfigError, with the near misses, for an entry that matches nothing.
    """
    if isinstance(targets, str):
        wanted = family.attention if targets == "attention" else family.linear
    else:
        wanted = tuple(targets)
    linear = [f"model.{name}" for name, module in body.named_modules() if isinstance(module, nn.Linear)]
    problems = []
    for entry in wanted:
        if not any(_matches(name, entry) for name in linear):
            leaves = sorted({name.rsplit(".", 1)[-1] for name in linear})
            near = difflib.get_close_matches(entry, leaves, n=3, cutoff=0.4) or leaves
            problems.append(f"{entry!r} matches no linear layer; there are {', '.join(near)}")
    if problems:
        raise ConfigError(problems, where="lora.targets")
    return [name for name in linear if any(_matches(name, entry) for entry in wanted)]


def _matches(name: str, entry: str) -> bool:
    return name == entry or name.endswith(f".{entry}")


def peft_config(
    names: Sequence[str], *, rank: int, alpha: float, dropout: float, variant: str, **more: Any
) -> "LoraConfig":
    """PEFT's config of an adapter on the layers of these names; `more` goes to PEFT as it is."""
    from peft import LoraConfig

    return LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # PEFT takes a float, its annotation says int
        lora_dropout=dropout,
        target_modules=list(names),
        use_rslora=variant == "rslora",
        use_dora=variant == "dora",
        bias="none",
        **more,
    )


def inject_lora(
    classifier: nn.Module, names: Sequence[str], *, rank: int, alpha: float, dropout: float, variant: str
) -> list[AdaptedLayer]:
    """Put PEFT's LoRA layers in place of the named ones, in float32, and return what was adapted.

    B starts at zero, so the classifier computes what it did before. `variant` is "lora", "rslora" or "dora".
    """
    from peft import inject_adapter_in_model

    config = peft_config(names, rank=rank, alpha=alpha, dropout=dropout, variant=variant)
    inject_adapter_in_model(config, classifier, adapter_name=ADAPTER)
    layers = []
    for name in names:
        layer: Any = classifier.get_submodule(name)
        trainable = [p for p in layer.parameters() if p.requires_grad]
        for parameter in trainable:
            parameter.data = parameter.data.to(torch.float32)
        parameters = sum(p.numel() for p in trainable)
        layers.append(AdaptedLayer(name, layer.in_features, layer.out_features, rank, parameters))
    classifier.get_parameter("score.weight").requires_grad_(True)
    classifier.train(classifier.training)  # the new layers' dropout is in the mode of the whole
    return layers


def audit(classifier: nn.Module, layers: Sequence[AdaptedLayer]) -> dict[str, object]:
    """The document `adapters.json`: every adapted layer, and counts of trainable, head and total parameters."""
    head = classifier.get_parameter("score.weight").numel()
    trainable = sum(p.numel() for p in classifier.parameters() if p.requires_grad)
    adapter = sum(layer.parameters for layer in layers)
    total = sum(num_elements(p) for p in classifier.parameters()) - trainable
    return {
        "layers": [
            {"name": row["name"], "in": row["inputs"], "out": row["outputs"], "rank": row["rank"],
             "parameters": row["parameters"]}
            for row in map(asdict, layers)
        ],
        "adapter": adapter,
        "head": head,
        "trainable": trainable,
        "total": total,
    }  # fmt: skip
