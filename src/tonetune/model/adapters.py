"""LoRA on explicit module names: which layers, how many parameters, and PEFT's layers in their place."""

import difflib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tonetune.errors import ConfigError, listed
from tonetune.model.classifier import HEAD, Classifier
from tonetune.model.families import Family
from tonetune.model.quantization import weight_of

if TYPE_CHECKING:
    from peft import LoraConfig

ADAPTER = "default"
START = "start"
"""PEFT's names of the adapter and, for PiSSA, of the frozen copy of its beginning, which is subtracted."""

LORAPLUS_RATIO = 16.0
"""Learning rate of B and the head over that of A in LoRA+: 2^4, its authors' rule of thumb (arXiv:2402.12354).

A is the one that slows down: with 16 times the rate that suits LoRA, the loss leaps at the second step.
"""

PISSA_ITERATIONS = 16
"""Power iterations of PiSSA's fast decomposition; its authors found 16 as good as the exact one (arXiv:2404.02948)."""


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
    classifier: Classifier, names: Sequence[str], *, rank: int, alpha: float, dropout: float, variant: str
) -> list[AdaptedLayer]:
    """Put PEFT's LoRA layers in place of the named ones, in float32, and return what their shapes call for.

    The classifier computes what it did before: B starts at zero or, with the variant "pissa", what it starts with is
    subtracted. "loraplus" is made like "lora", and trained otherwise.
    """
    from peft import inject_adapter_in_model

    layers = lora_layers(classifier.model, names, rank=rank, variant=variant)
    config = peft_config(names, rank=rank, alpha=alpha, dropout=dropout, variant=variant)
    inject_adapter_in_model(config, classifier, adapter_name=ADAPTER)
    for name, parameter in classifier.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(torch.float32)
    if variant == "pissa":
        config = peft_config(names, rank=rank, alpha=alpha, dropout=0.0, variant=variant)
        _start_from_singular_vectors(classifier, names, config)
    classifier.get_parameter(HEAD).requires_grad_(True)
    classifier.train(classifier.training)  # the new layers' dropout is in the mode of the whole
    return layers


@torch.no_grad()
def _start_from_singular_vectors(classifier: Classifier, names: Sequence[str], config: "LoraConfig") -> None:
    """PiSSA beside an untouched weight W = U S V', quantised or not: W + scale · (B A - B0 A0).

    B and A start as the frozen B0 = U √(S / scale) and A0 = √(S / scale) V', of the `config.r` largest singular values.
    Meng, Wang and Zhang (2024) write the residual W - scale · B0 A0 in W's place, which is the same product. Twice as
    many values are looked for as are used, because the last ones of the fast decomposition are inexact.
    """
    from peft import inject_adapter_in_model

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # a second adapter is meant
        inject_adapter_in_model(config, classifier, adapter_name=START)
    for name in names:
        layer: Any = classifier.get_submodule(name)
        weight = weight_of(layer.get_base_layer()).float()
        number = min(config.r, *weight.shape)
        found = torch.svd_lowrank(weight, q=min(2 * config.r, *weight.shape), niter=PISSA_ITERATIONS)
        left, values, right = (part[..., :number] for part in found)
        root = (values / layer.scaling[ADAPTER]).sqrt()
        (a, b), (a_start, b_start) = ((layer.lora_A[x].weight, layer.lora_B[x].weight) for x in (ADAPTER, START))
        a[:number], b[:, :number] = root[:, None] * right.T, left * root
        a_start.data, b_start.data = a.clone(), -b
        layer.set_adapter([ADAPTER, START])
        a_start.requires_grad_(False)
        b_start.requires_grad_(False)


def settle(classifier: Classifier, *, rank: int, alpha: float, variant: str) -> tuple[int, float, str]:
    """Give a trained adapter the form in which it is saved: rank, alpha and variant by which plain PEFT reads it.

    PiSSA's two adapters become one of twice the rank and the same scale, alpha / rank: [B, -B0] [A; A0].
    """
    if variant != "pissa":
        return rank, alpha, "lora" if variant == "loraplus" else variant
    for module in classifier.modules():
        if START in getattr(module, "lora_A", ()):
            layer: Any = module
            for matrices, axis in ((layer.lora_A, 0), (layer.lora_B, 1)):
                both = torch.cat([matrices[ADAPTER].weight, matrices[START].weight], axis)
                matrices[ADAPTER].weight = nn.Parameter(both.detach())
            layer.delete_adapter(START)
    return 2 * rank, 2 * alpha, "lora"
