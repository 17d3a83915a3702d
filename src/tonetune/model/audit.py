"""The audit of an adapter before the first step: which layers have one, which have none and why, and all its counts."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from torch import nn

from tonetune.errors import ModelError, listed
from tonetune.model.adapters import AdaptedLayer
from tonetune.model.classifier import HEAD, Classifier
from tonetune.model.families import Family
from tonetune.model.quantization import num_elements

WHERE = "adapters.json"
NOTHING = "lora.targets names none of its linear layers"

ABSENT = {
    frozenset({"k_proj", "v_proj"}): "no k_proj and v_proj: it reuses the keys and values of an earlier layer",
    frozenset({"v_proj"}): "no v_proj: its values are its keys",
}
"""What it means where a decoder layer lacks linear layers that its family has."""


@dataclass(frozen=True)
class LayerKind:
    """Decoder layers that are adapted alike, by number; none for what lies outside of them.

    `adapted` are the linear layers with an adapter, `parameters` those of the adapters of one decoder layer, `remarks`
    what is out of the ordinary.
    """

    layers: list[int]
    adapted: list[dict[str, str | int]]
    parameters: int
    remarks: list[str]


def audit(
    classifier: Classifier, family: Family, layers: Sequence[AdaptedLayer], *, targets: str | Sequence[str]
) -> dict[str, object]:
    """The document `adapters.json`: every adapted layer, the kinds of decoder layers, and counts of parameters.

    `layers` is what `inject_lora` returned for the `targets` of a config. Raises ModelError where PEFT made other
    parameters than the shapes call for, where the head is frozen or a part of the base is not, and where a decoder
    layer has no adapter although `targets` is a set of tonetune's own.
    """
    _check_counts(classifier, layers)
    _check_trainable(classifier, layers)
    kinds = layer_kinds(classifier.model, family, layers)
    bare = [number for kind in kinds if not kind.adapted for number in kind.layers]
    if bare and isinstance(targets, str):
        raise ModelError(
            f"decoder layers without an adapted linear layer: {listed(map(str, bare))}",
            where=f"lora.targets: {targets}",
            hint="name the layers to adapt in a list",
        )
    head = classifier.get_parameter(HEAD).numel()
    adapter = sum(layer.parameters for layer in layers)
    beside = classifier.added()
    return {
        "layers": [
            {"name": layer.name, "in": layer.inputs, "out": layer.outputs, "rank": layer.rank,
             "parameters": layer.parameters}
            for layer in layers
        ],
        "kinds": [asdict(kind) for kind in kinds],
        "adapter": adapter,
        "head": head,
        "trainable": adapter + head,
        "total": sum(num_elements(p) for name, p in classifier.named_parameters() if name not in beside),
    }  # fmt: skip


def _check_counts(classifier: Classifier, layers: Sequence[AdaptedLayer]) -> None:
    wrong = []
    for layer in layers:
        made = sum(p.numel() for p in classifier.get_submodule(layer.name).parameters() if p.requires_grad)
        if made != layer.parameters:
            wrong.append(f"{layer.name} has {made:,}, and its shape calls for {layer.parameters:,}")
    if wrong:
        raise ModelError(
            f"{len(wrong)} adapters have another number of trainable parameters than they should: {listed(wrong, 3)}",
            where=WHERE,
            hint="install a version of peft that tonetune was tested with",
        )


def _check_trainable(classifier: Classifier, layers: Sequence[AdaptedLayer]) -> None:
    trainable = set(classifier.trainable())
    if HEAD not in trainable:
        raise ModelError(f"the head, {HEAD}, is frozen: it would stay as it is and not be saved", where=WHERE)
    adapters = tuple(f"{layer.name}.lora_" for layer in layers)
    if others := sorted(name for name in trainable if name != HEAD and not name.startswith(adapters)):
        raise ModelError(f"{len(others)} parameters of the base are not frozen: {listed(others, 3)}", where=WHERE)


def layer_kinds(body: nn.Module, family: Family, layers: Sequence[AdaptedLayer]) -> list[LayerKind]:
    """Decoder layers that are alike together, in the order of the first of each kind."""
    inside = re.compile(rf"model\.{re.escape(family.layers)}\.(\d+)\.(.+)")
    adapted: dict[int | None, list[AdaptedLayer]] = defaultdict(list)
    for layer in layers:
        found = inside.fullmatch(layer.name)
        adapted[int(found[1]) if found else None].append(layer)
    kinds: dict[str, LayerKind] = {}
    for number, block in enumerate(body.get_submodule(family.layers).children()):
        remarks = _remarks(block, family)
        kind = _kind(adapted[number], remarks if adapted[number] else [NOTHING, *remarks])
        kinds.setdefault(repr(kind), kind).layers.append(number)
    return [*kinds.values(), *([_kind(adapted[None], [])] if None in adapted else [])]


def _kind(layers: Sequence[AdaptedLayer], remarks: list[str]) -> LayerKind:
    adapted: list[dict[str, str | int]] = [
        {"name": layer.name.rpartition(".")[2], "in": layer.inputs, "out": layer.outputs} for layer in layers
    ]
    return LayerKind([], adapted, sum(layer.parameters for layer in layers), remarks)


def _remarks(block: nn.Module, family: Family) -> list[str]:
    """What sets a decoder layer apart from others of its family, found in its modules and parameters."""
    present = {name for name, _ in block.named_modules()}
    absent = frozenset(name.rpartition(".")[2] for name in family.linear if name not in present)
    remarks = [ABSENT.get(absent, f"no {' and '.join(sorted(absent))}")] if absent else []
    experts = sum(p.numel() for p in block.parameters() if p.dim() == 3)
    return [*remarks, f"experts: {experts:,} parameters in 3-D tensors are not adapted"] if experts else remarks
