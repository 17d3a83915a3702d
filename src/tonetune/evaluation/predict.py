"""Logits for any number of texts: the one way training, evaluation, predict and serving score."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune.data.batches import TokenStore
from tonetune.data.cut import cut
from tonetune.data.tokens import TextTokenizer
from tonetune.device.memory import WHEN_SCORING, memory_errors
from tonetune.model.classifier import Classifier

# N = texts, C = labels

WINDOW = 2048
"""Texts sorted by length together: enough for micro-batches without padding, few enough for a progress bar to move."""


@dataclass(frozen=True)
class Scorer:
    """A classifier with its tokenizer and the size of its micro-batches, in tokens."""

    classifier: Classifier
    tokenizer: TextTokenizer
    budget_tokens: int
    call_tokens: int

    def store(self, ids: Sequence[NDArray[np.int32]]) -> TokenStore:
        """Put token ids on the classifier's device."""
        return TokenStore(ids, pad_id=self.tokenizer.pad_id, device=self.classifier.device)

    def logits(
        self, ids: Sequence[NDArray[np.int32]], *, done: Callable[[int], None] = lambda texts: None
    ) -> NDArray[np.float32]:
        """Logits, shape (N, C), of texts by their token ids, in order. Raises DeviceError where memory is short."""
        with memory_errors("scoring", hint=WHEN_SCORING):
            return self.score(self.store(ids), done=done)

    def score(self, store: TokenStore, *, done: Callable[[int], None] = lambda texts: None) -> NDArray[np.float32]:
        """Logits, shape (N, C), in the order of the store; `done` hears how many more texts are scored."""
        return score(self.classifier, store, budget_tokens=self.budget_tokens, call_tokens=self.call_tokens, done=done)

    def states(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """What the head sees of texts, shape (N, D), by token ids, in order. Raises DeviceError as `logits` does."""
        with memory_errors("scoring", hint=WHEN_SCORING):
            return _in_windows(
                self.classifier,
                self.classifier.pooled,
                self.store(ids),
                width=self.classifier.score.in_features,
                budget_tokens=self.budget_tokens,
                call_tokens=self.call_tokens,
                done=lambda texts: None,
            )


def score(
    classifier: Classifier,
    store: TokenStore,
    *,
    budget_tokens: int,
    call_tokens: int,
    done: Callable[[int], None] = lambda texts: None,
) -> NDArray[np.float32]:
    """Logits, shape (N, C), in the order of the store, with dropout off; the classifier's mode is put back.

    The host waits for the device once a window, not once a micro-batch, so `done` may be ahead of a GPU by a window.
    """
    return _in_windows(
        classifier,
        classifier,
        store,
        width=classifier.score.out_features,
        budget_tokens=budget_tokens,
        call_tokens=call_tokens,
        done=done,
    )


@torch.inference_mode()
def _in_windows(
    classifier: Classifier,
    compute: Callable[..., torch.Tensor],
    store: TokenStore,
    *,
    width: int,
    budget_tokens: int,
    call_tokens: int,
    done: Callable[[int], None],
) -> NDArray[np.float32]:
    """What `compute` makes of each text, shape (N, width), in the order of the store."""
    was_training = classifier.training
    classifier.eval()
    results = np.zeros((len(store), width), dtype=np.float32)
    by_length = np.argsort(store.lengths, kind="stable")
    for begin in range(0, len(by_length), WINDOW):
        window = by_length[begin : begin + WINDOW]
        micros = cut(store.lengths[window], budget_tokens=budget_tokens, call_tokens=call_tokens)
        parts = []
        for micro in micros:
            batch = store.batch(window[micro])
            parts.append(compute(batch.ids_BT, batch.mask_BT, right_padded=True))
            done(len(micro))
        results[window[np.concatenate(micros)]] = torch.cat(parts).cpu().numpy()
    classifier.train(was_training)
    return results
