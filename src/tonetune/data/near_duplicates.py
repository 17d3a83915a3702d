"""Near duplicates: texts that share most of their characters in order, found by MinHash and proved exactly.

A text is the set of its 3-grams of characters, both ends padded. Two texts are near duplicates where the Jaccard
similarity of their sets is at least 0.8: one character changed in 25, or ten in a text of 200.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

# N = texts, G = 3-grams of several texts one after the other, B = bands, P = pairs

SIMILARITY = 0.8
BANDS = 14
BAND_HASHES = 5  # a pair of similarity 0.8 agrees in a band with probability 0.8 ** 5, in one of 14 with 0.996
NEIGHBOURS = 3
CHUNK_CHARACTERS = 1 << 20
PAD = "\0\0"
SHIFT = 21  # bits of a code point

Ids = NDArray[np.int64]
Words = NDArray[np.uint64]


def near_groups(keys: Sequence[str]) -> dict[str, str]:
    """Texts that have near duplicates, each mapped to the first of its group; `keys` are distinct `text_key`s.

    Groups are the connected parts of the graph of near duplicates: two texts of one may be linked by others only.
    Takes about 100 bytes a text beside the texts.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs_P2 = np.array([(i, j) for i, j in _candidates(keys) if similarity(keys[i], keys[j]) >= SIMILARITY])
    if not len(pairs_P2):
        return {}
    linked, ends = np.unique(pairs_P2, return_inverse=True)
    first_P, second_P = ends.reshape(pairs_P2.shape).T
    graph = coo_array((np.ones(len(first_P)), (first_P, second_P)), shape=(len(linked), len(linked)))
    _, groups = connected_components(graph, directed=False)
    texts = sorted((keys[i], group) for i, group in zip(linked.tolist(), groups.tolist(), strict=True))
    first: dict[int, str] = {}
    return {text: first.setdefault(group, text) for text, group in texts}


def similarity(a: str, b: str) -> float:
    """Jaccard similarity of the sets of 3-grams of two texts."""
    grams_a, grams_b = _gram_set(a), _gram_set(b)
    shared = len(grams_a & grams_b)
    return shared / (len(grams_a) + len(grams_b) - shared)


def _gram_set(text: str) -> set[str]:
    padded = f"{PAD}{text}{PAD}"
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def _candidates(keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of texts that share a band's hash, i < j, each once.

    In a band a text is paired with the next three in the order of hash and text: variants of one text give a few times
    as many pairs as there are of them, not their square. Which texts are paired does not depend on the order of `keys`.
    """
    if not keys:
        return
    bands_BN, texts_N = _hashes(keys)
    by_text_N = np.argsort(texts_N, kind="stable")
    codes = [np.zeros(0, dtype=np.int64)]
    for band_N in bands_BN:
        order_N = by_text_N[np.argsort(band_N[by_text_N], kind="stable")]
        sorted_N = band_N[order_N]
        for step in range(1, NEIGHBOURS + 1):
            alike = np.flatnonzero(sorted_N[:-step] == sorted_N[step:])
            first, second = np.sort([order_N[alike], order_N[alike + step]], axis=0)
            codes.append(first * len(keys) + second)
    for code in np.unique(np.concatenate(codes)):
        yield divmod(int(code), len(keys))


def _hashes(keys: Sequence[str]) -> tuple[NDArray[np.uint32], Words]:
    """The hash of each band of each text's MinHash signature, shape (B, N), and one hash of the whole text, shape (N,).

    Broder, "On the resemblance and containment of documents" (1997); a permutation is a multiplication of well mixed
    3-grams by an odd number modulo 2 ** 64.
    """
    multipliers = np.random.default_rng(0).integers(1 << 63, size=(BANDS, BAND_HASHES), dtype=np.uint64) * 2 + 1
    bands_BN = np.empty((BANDS, len(keys)), dtype=np.uint32)
    texts_N = np.empty(len(keys), dtype=np.uint64)
    for begin, end in _chunks(keys):
        grams_G, starts = _grams(keys[begin:end])
        texts_N[begin:end] = np.add.reduceat(grams_G, starts)
        permuted_G = np.empty_like(grams_G)
        for band, band_multipliers in enumerate(multipliers):
            hashes = np.zeros(end - begin, dtype=np.uint64)
            for multiplier in band_multipliers:
                np.multiply(grams_G, multiplier, out=permuted_G)
                hashes = _mixed(hashes ^ np.minimum.reduceat(permuted_G, starts))
            bands_BN[band, begin:end] = hashes >> np.uint64(32)
    return bands_BN, texts_N


def _chunks(keys: Sequence[str]) -> list[tuple[int, int]]:
    """Ranges of texts of about a million characters each."""
    ends = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)) + len(PAD))
    cuts = np.flatnonzero(np.diff(ends // CHUNK_CHARACTERS, append=-1)) + 1
    return list(zip([0, *cuts.tolist()], cuts.tolist(), strict=False))


def _grams(keys: Sequence[str]) -> tuple[Words, Ids]:
    """The 3-grams of the texts as mixed 64-bit words, shape (G,), and where each text's begin."""
    codes = np.frombuffer(PAD.join(["", *keys, ""]).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    wide = codes.astype(np.uint64)
    grams_G = wide[:-2] | wide[1:-1] << np.uint64(SHIFT) | wide[2:] << np.uint64(2 * SHIFT)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys)) + len(PAD)
    return _mixed(grams_G), np.cumsum(lengths) - lengths


def _mixed(words: Words) -> Words:
    """The finaliser of SplitMix64: a one-to-one mapping after which every bit depends on every other."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
