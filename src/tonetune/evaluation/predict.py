"""Logits for any number of texts: the one way training, evaluation, predict and serving score."""

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune.data.batches import TokenStore, cut
from tonetune.model.classifier import Classifier

# N = texts, C = labels


@torch.inference_mode()
def score(
    classifier: Classifier, store: TokenStore, *, budget_tokens: int, call_tokens: int, window: int = 2048
) -> NDArray[np.float32]:
    """Logits, shape (N, C), in the order of the store, with dropout off; the classifier's mode is put back.

    Texts are cut into micro-batches of similar length within windows of `window` texts.
    """
    was_training = classifier.training
    classifier.eval()
    logits_NC = np.zeros((len(store), classifier.score.out_features), dtype=np.float32)
    by_length = np.argsort(store.lengths, kind="stable")
    for begin in range(0, len(by_length), window):
        part = by_length[begin : begin + window]
        for micro in cut(store.lengths[part], budget_tokens=budget_tokens, call_tokens=call_tokens):
            rows = part[micro]
            batch = store.batch(rows)
            logits_NC[rows] = classifier(batch.ids_BT, batch.mask_BT, right_padded=True).cpu().numpy()
    classifier.train(was_training)
    return logits_NC
