"""The gradient of a batch, however it is cut; what is done where memory runs out, or a number is not finite."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tonetune.data.batches import Batch, TokenStore
from tonetune.data.cut import cut
from tonetune.device.finite import FirstNonFinite
from tonetune.device.memory import ran_out
from tonetune.model.classifier import Classifier

# B = texts in a micro-batch, C = labels, N = rows of the store


def accumulate(
    classifier: Classifier,
    store: TokenStore,
    gold_N: Tensor,
    rows: NDArray[np.int64],
    *,
    budget_tokens: int,
    call_tokens: int,
    weights_C: Tensor | None = None,
) -> Tensor:
    """Add the gradient of the mean loss over `rows` to the parameters; return that mean, on the device.

    `weights_C` multiply the loss of each text by that of its class; the mean is over texts, not over weights, so that
    a text counts the same whatever stands beside it in its batch.
    """
    total = torch.zeros((), device=classifier.device)
    for micro in cut(store.lengths[rows], budget_tokens=budget_tokens, call_tokens=call_tokens):
        loss = summed_loss(classifier, store.batch(rows[micro]), gold_N, weights_C) / len(rows)
        loss.backward()
        total += loss.detach()
    return total


def summed_loss(classifier: Classifier, batch: Batch, gold_N: Tensor, weights_C: Tensor | None = None) -> Tensor:
    """The loss summed over the texts of a batch; `gold_N` holds what is true of every row of the store.

    It is the cross-entropy where `gold_N`, shape (N,), has the label of each text, and the binary cross-entropy
    averaged over labels, without weights, where, shape (N, C), it says 1 or 0 of each label.
    """
    logits_BC = classifier(batch.ids_BT, batch.mask_BT, right_padded=True)
    gold_B = gold_N[batch.rows_B]
    loss: Tensor
    if gold_B.ndim == 1:
        loss = nn.functional.cross_entropy(logits_BC, gold_B, weight=weights_C, reduction="sum")
    else:
        loss = nn.functional.binary_cross_entropy_with_logits(logits_BC, gold_B.float(), reduction="sum")
        loss = loss / logits_BC.shape[1]
    return loss


def accumulate_if_it_fits(
    classifier: Classifier,
    store: TokenStore,
    gold_N: Tensor,
    rows: NDArray[np.int64],
    *,
    budget_tokens: int,
    **how: Any,
) -> Tensor | None:
    """As `accumulate`, for parameters without gradients; None, and again no gradients, where memory ran out.

    Raises what ran out where texts stand alone already.
    """
    try:
        return accumulate(classifier, store, gold_N, rows, budget_tokens=budget_tokens, **how)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error) or budget_tokens < 2 * store.lengths[rows].min():
            raise
    classifier.zero_grad(set_to_none=True)  # here, where the error holds no tensors any more
    if classifier.device.type == "cuda":
        torch.cuda.empty_cache()
    return None


def first_not_finite(
    classifier: Classifier, store: TokenStore, gold_N: Tensor, rows: NDArray[np.int64], **how: Any
) -> str:
    """The module whose output, or else the parameter whose gradient, is the first that is not finite.

    Computes the batch again, as `accumulate` does, and leaves its gradient.
    """
    classifier.zero_grad(set_to_none=True)
    with FirstNonFinite(classifier) as watch:
        accumulate(classifier, store, gold_N, rows, **how)
    if watch.name is not None:
        return f"the output of {watch.name or 'the classifier'}"
    backwards = reversed(classifier.trainable().items())
    wrong = (name for name, p in backwards if p.grad is not None and not bool(p.grad.isfinite().all()))
    return next((f"the gradient of {name}" for name in wrong), "nothing when it was computed again")
