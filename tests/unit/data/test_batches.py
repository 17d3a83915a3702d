"""Laws of batches: the store pads as one would by hand, and texts are cut into the cheapest micro-batches."""

import itertools

import numpy as np
import pytest
import torch

from tonetune.data.batches import TokenStore
from tonetune.data.cut import cut

CPU = torch.device("cpu")


def ragged(lengths: list[int], *, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(4, 99, size=n).astype(np.int32) for n in lengths]


@pytest.mark.parametrize("rows", [[0], [2, 0, 1], [4, 4, 3], [3], [0, 1, 2, 3, 4]])
def test_a_batch_equals_naive_padding(rows):
    texts = ragged([3, 1, 7, 2, 7])
    batch = TokenStore(texts, pad_id=50, device=CPU).batch(np.array(rows))
    width = max(len(texts[i]) for i in rows)
    for got_ids, got_mask, i in zip(batch.ids_BT.tolist(), batch.mask_BT.tolist(), rows, strict=True):
        pads = width - len(texts[i])
        assert got_ids == texts[i].tolist() + [50] * pads
        assert got_mask == [True] * len(texts[i]) + [False] * pads
    assert batch.rows_B.tolist() == rows
    assert batch.ids_BT.dtype == batch.rows_B.dtype == torch.int64 and batch.mask_BT.dtype == torch.bool


def test_the_store_knows_its_lengths():
    store = TokenStore(ragged([3, 1, 7]), pad_id=0, device=CPU)
    assert len(store) == 3 and store.lengths.tolist() == [3, 1, 7]
    assert len(TokenStore([], pad_id=0, device=CPU)) == 0


# --- cut


def price(part: list[int], lengths: np.ndarray, call_tokens: int) -> int:
    return len(part) * int(lengths[part].max()) + call_tokens


def partitions(items: list[int]):
    """Every way to put items into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [i for i in rest if i not in others]
            for parts in partitions(left):
                yield [[first, *others], *parts]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("budget", "call"), [(12, 0), (12, 5), (30, 3), (1000, 7), (4, 2)])
def test_a_cut_costs_as_little_as_the_best_of_all_partitions(seed, budget, call):
    lengths = np.random.default_rng(seed).integers(1, 12, size=6)
    allowed = [
        parts
        for parts in partitions(list(range(6)))
        if all(len(part) == 1 or price(part, lengths, 0) <= budget for part in parts)
    ]
    best = min(sum(price(part, lengths, call) for part in parts) for parts in allowed)
    found = [part.tolist() for part in cut(lengths, budget_tokens=budget, call_tokens=call)]
    assert sum(price(part, lengths, call) for part in found) == best


@pytest.mark.parametrize("size", [0, 1, 2, 50, 301])
@pytest.mark.parametrize("budget", [1, 64, 512, 10**6])
def test_a_cut_is_a_partition_within_the_budget(size, budget):
    lengths = np.random.default_rng(size).integers(1, 200, size=size)
    parts = cut(lengths, budget_tokens=budget, call_tokens=48)
    assert sorted(i for part in parts for i in part.tolist()) == list(range(size))
    assert all(len(part) == 1 or len(part) * lengths[part].max() <= budget for part in parts)
