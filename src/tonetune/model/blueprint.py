"""A classifier as its config describes it, without a checkpoint."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn

from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier
from tonetune.model.families import Family
from tonetune.model.quantization import NONE, packed_bytes, packs

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Blueprint:
    """All that the memory and the work of a classifier to train depend on; `config` is that of the text model."""

    config: "PreTrainedConfig"
    family: Family
    dtype: torch.dtype
    attention: str
    num_labels: int
    targets: str | Sequence[str]
    rank: int
    alpha: float
    dropout: float
    variant: str
    quantization: str = NONE

    def build(self, device: torch.device | str) -> Classifier:
        """A classifier with adapter and random weights, in training mode; on "meta" it takes no memory.

        Nothing is packed, and no adapter starts from singular vectors: the shapes are the same.
        """
        from transformers import AutoModel

        with torch.device(device):
            body = AutoModel.from_config(
                copy.deepcopy(self.config), dtype=self.dtype, attn_implementation=self.attention
            )
            classifier = Classifier(body.requires_grad_(False), torch.zeros(self.num_labels, self.config.hidden_size))
            names = target_names(body, self.family, self.targets)
            variant = "lora" if self.variant == "pissa" else self.variant
            inject_lora(classifier, names, rank=self.rank, alpha=self.alpha, dropout=self.dropout, variant=variant)
        return classifier.train()

    def stored_bytes(self, classifier: Classifier) -> tuple[int, int]:
        """Bytes of all that is frozen in such a classifier, packed as `quantization` says; and those that the largest
        packed layer takes unpacked, as it is while it computes.
        """
        packed: dict[str, nn.Linear] = {}
        for name, layer in classifier.named_modules():
            if self._is_packed(layer, name):
                packed[name] = layer
        plain = [
            parameter
            for name, parameter in classifier.named_parameters()
            if not parameter.requires_grad and name.removesuffix(".weight") not in packed
        ]
        total = sum(t.numel() * t.element_size() for t in (*plain, *classifier.buffers()))
        total += sum(packed_bytes(layer, self.quantization) for layer in packed.values())
        unpacked = [layer.weight.numel() * layer.weight.element_size() for layer in packed.values()]
        return total, max(unpacked, default=0)

    def _is_packed(self, layer: nn.Module, name: str) -> TypeGuard[nn.Linear]:
        """Whether a layer of a classifier is among those that `load_base` packs."""
        if self.quantization == NONE or not isinstance(layer, nn.Linear):
            return False
        return name.removesuffix(".base_layer").endswith(self.family.linear) and packs(layer, self.quantization)
