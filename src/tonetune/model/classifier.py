"""The classifier: a Gemma body without its language-model head, the last real token's state, a float32 head."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HEAD = "score.weight"

# B = texts in the batch, T = tokens, D = hidden width, C = labels


def pool_last(hidden_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """Hidden state of each text's last real token, shape (B, D), whichever side is padded."""
    last_B = (mask_BT * torch.arange(mask_BT.shape[1], device=mask_BT.device)).argmax(dim=1)
    return hidden_BTD[torch.arange(last_B.shape[0], device=last_B.device), last_B]


class Classifier(nn.Module):
    """`model` (the body) and `score` (the head), named as in transformers, so that saved adapters load there."""

    def __init__(self, body: "PreTrainedModel", head_CD: Tensor) -> None:
        super().__init__()
        self.model = body
        num_labels, hidden = head_CD.shape
        device = next(body.parameters()).device
        self.score = nn.Linear(hidden, num_labels, bias=False, dtype=torch.float32, device=device)
        with torch.no_grad():
            self.score.weight.copy_(head_CD)

    @property
    def is_loaded_in_4bit(self) -> bool:
        """PEFT asks this, and the next, to choose the layers that it puts beside quantised ones."""
        return getattr(self.model, "is_loaded_in_4bit", False)

    @property
    def is_loaded_in_8bit(self) -> bool:
        return getattr(self.model, "is_loaded_in_8bit", False)

    @property
    def device(self) -> torch.device:
        return self.score.weight.device

    def forward(self, ids_BT: Tensor, mask_BT: Tensor, *, right_padded: bool = False) -> Tensor:
        """Logits, shape (B, C), float32, from what `pooled` takes."""
        logits_BC: Tensor = self.score(self.pooled(ids_BT, mask_BT, right_padded=right_padded))
        return logits_BC

    def pooled(self, ids_BT: Tensor, mask_BT: Tensor, *, right_padded: bool = False) -> Tensor:
        """What the head sees of each text, shape (B, D), float32; the mask is True on real tokens.

        With `right_padded` the caller promises that pads stand only behind their text, where causal attention never
        looks back at them: no attention mask is built and the fused causal kernel is used.
        """
        attention_mask = None if right_padded else mask_BT.long()
        hidden_BTD = self.model(input_ids=ids_BT, attention_mask=attention_mask, use_cache=False).last_hidden_state
        return pool_last(hidden_BTD, mask_BT).float()

    def recompute_activations(self) -> None:
        """Keep no activations of decoder layers for the backward pass, which computes them again.

        Never reentrantly: where layers share keys and values, that kind gives wrong gradients, and nothing shows it.
        """
        settings = {"use_reentrant": False}
        if hasattr(self.model, "activation_checkpointing_enable"):
            self.model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
        else:  # its name in transformers 5.18
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)

    def trainable(self) -> dict[str, nn.Parameter]:
        """The parameters that training changes, by name: the adapter's and the head's."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def added(self) -> dict[str, nn.Parameter]:
        """What stands beside the base, by name: the head and the adapters, with what is frozen in these."""
        return {name: p for name, p in self.named_parameters() if name == HEAD or ".lora_" in name}

    def snapshot(self) -> dict[str, Tensor]:
        """A copy on the CPU of what stands beside the base."""
        return {name: p.detach().to("cpu", copy=True) for name, p in self.added().items()}

    @torch.no_grad()
    def restore(self, snapshot: dict[str, Tensor]) -> None:
        """Put a snapshot back."""
        for name, parameter in self.added().items():
            parameter.copy_(snapshot[name])
