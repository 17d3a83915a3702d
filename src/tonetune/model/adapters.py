"""LoRA on explicit module names: which layers, how many parameters, and PEFT's layers in their place."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tonetune.errors import ConfigError, listed
from tonetune.model.families import Family

if TYPE_CHECKING:
    from peft import LoraConfig

ADAPTER = "default"
HEAD = "score.weight"


@dataclass(frozen=True)
class AdaptedLayer:
    """One linear layer with an adapter: its width in, width out, and the trainable parameters these call for."""

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
    absent = [entry for entry in wanted if not any(_matches(name, entry) for name in linear)]
    if absent:
        problems = [f"{entry!r} matches no linear layer; there are {_near(entry, linear)}" for entry in absent]
        hint = "entries are ends of layer names, without wildcards" if any(map(_PATTERN.search, absent)) else None
        raise ConfigError(problems, where="lora.targets", hint=hint)
    return [name for name in linear if any(_matches(name, entry) for entry in wanted)]


def _matches(name: str, entry: str) -> bool:
    return name == entry or name.endswith(f".{entry}")


_PATTERN = re.compile(r"[^\w.]|\.\.")


def _near(entry: str, names: Sequence[str]) -> str:
    """The ends of layer names, of as many parts as an entry has, that are most like it; all last parts if none is."""
    plain = _PATTERN.sub("", entry).strip(".")
    parts = plain.count(".") + 1
    ends = dict.fromkeys(".".join(name.split(".")[-parts:]) for name in names)
    leaves = dict.fromkeys(name.rpartition(".")[2] for name in names)
    return listed(difflib.get_close_matches(plain, ends, n=3, cutoff=0.4) or sorted(leaves), 12)


def lora_layers(body: nn.Module, names: Sequence[str], *, rank: int, variant: str) -> list[AdaptedLayer]:
    """What LoRA on the layers of these names adds, by their shapes alone: they may lie on the meta device.

    A has rank · in parameters, B rank · out, and DoRA one more per output.
    """
    layers = []
    for name in names:
        layer: Any = body.get_submodule(name.removeprefix("model."))
        inputs, outputs = int(layer.in_features), int(layer.out_features)
        parameters = rank * (inputs + outputs) + (outputs if variant == "dora" else 0)
        layers.append(AdaptedLayer(name, inputs, outputs, rank, parameters))
    return layers


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
    """Put PEFT's LoRA layers in place of the named ones, in float32, and return what their shapes call for.

    B starts at zero, so the classifier computes what it did before. `variant` is "lora", "rslora" or "dora".
    """
    from peft import inject_adapter_in_model

    layers = lora_layers(classifier.get_submodule("model"), names, rank=rank, variant=variant)
    config = peft_config(names, rank=rank, alpha=alpha, dropout=dropout, variant=variant)
    inject_adapter_in_model(config, classifier, adapter_name=ADAPTER)
    for name, parameter in classifier.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(torch.float32)
    classifier.get_parameter(HEAD).requires_grad_(True)
    classifier.train(classifier.training)  # the new layers' dropout is in the mode of the whole
    return layers
