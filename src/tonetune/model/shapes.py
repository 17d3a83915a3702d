"""Shapes without weights: the text model of a config.json, and how many parameters it and an adapter have."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tonetune.model.adapters import AdaptedLayer
from tonetune.model.families import layout_of, text_config
from tonetune.model.hub import read_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Counts:
    """Parameters: `total` of the text model with its embeddings, and of what is trained beside it."""

    total: int
    adapter: int
    head: int

    @property
    def trainable(self) -> int:
        return self.adapter + self.head


def body_on_meta(config: dict[str, Any] | Path) -> "PreTrainedModel":
    """The text model of a config.json, or of a directory that holds one, on the meta device, which stores no weights.

    Raises ModelError where there is no such file, or the model is not supported.
    """
    from transformers import AutoModel

    where = str(config) if isinstance(config, Path) else "the model"
    document = read_config(config / "config.json") if isinstance(config, Path) else config
    layout_of(document, where=where)  # refuses what is not supported
    with torch.device("meta"):
        body: PreTrainedModel = AutoModel.from_config(text_config(document, where=where))
    return body


def count_parameters(body: "PreTrainedModel", layers: Sequence[AdaptedLayer], *, num_labels: int) -> Counts:
    """Parameters of a text model with adapters on some layers and a head for so many labels."""
    return Counts(
        total=sum(p.numel() for p in body.parameters()),
        adapter=sum(layer.parameters for layer in layers),
        head=num_labels * int(body.config.hidden_size),
    )
