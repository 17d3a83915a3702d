"""The head's words: one word per label that the language model would say, and the head that starts from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tonetune.data.concepts import known_concept
from tonetune.data.tokens import TextTokenizer
from tonetune.errors import ConfigError
from tonetune.labels import LabelSet

# C = labels, D = hidden width


POLARITY = ("positive", "negative", "neutral", "mixed")


@dataclass(frozen=True)
class LabelWords:
    """The word of each label in label order and the token ids that stand for it.

    One id per label where the words' first tokens differ; where they cannot, all ids of the label's word, whose mean
    row is used (`note` then says so).
    """

    words: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]
    note: str | None = None

    def as_dict(self, labels: LabelSet) -> dict[str, str]:
        return dict(zip(labels.names, self.words, strict=True))


def kind_of(labels: LabelSet) -> str:
    """ "sentiment" where every label is a known polarity or a number, else "emotion"."""
    concepts = [known_concept(name) for name in labels.names]
    polar = all(concept is not None and concept.name in POLARITY for concept in concepts)
    return "sentiment" if polar or labels.numeric else "emotion"


def _candidates(label: str, language: str) -> list[str]:
    concept = known_concept(label)
    own = label.strip().replace("_", " ")
    return [*concept.words[language], own] if concept else [own]


def words_of(chosen: Sequence[str], tokenizer: TextTokenizer) -> LabelWords:
    """The words as they are, one a label. Raises ConfigError where two of them cannot be told apart."""
    first_words, first = _distinct([[word] for word in chosen], tokenizer)
    if first_words is not None:
        return LabelWords(first_words, tuple((token,) for token in first))
    words = tuple(chosen)
    ids = tuple(tuple(tokenizer.word_ids(word)) for word in words)
    if len(set(ids)) < len(ids):
        raise ConfigError(
            [f"two labels share one word: {', '.join(words)}"], where="prompt.words", hint="choose words that differ"
        )
    return LabelWords(words, ids, "some words begin with the same token, so each label uses the mean of its tokens")


def choose_words(
    labels: LabelSet, tokenizer: TextTokenizer, *, language: str, chosen: Mapping[str, str] | None = None
) -> LabelWords | None:
    """One word per label, so that the first tokens behind the template differ; None where the labels say nothing.

    `chosen` are the user's words and must cover every label (ConfigError otherwise). Numeric labels have no words
    unless the user names them. Where no candidates differ in their first token, the label's row becomes the mean over
    its word's tokens.
    """
    if chosen is not None:
        missing = [name for name in labels.names if name not in chosen]
        unknown = [name for name in chosen if name not in labels.names]
        if missing or unknown:
            problems = [f"no word for label {name!r}" for name in missing]
            problems += [f"{name!r} is not a label; labels are {', '.join(labels.names)}" for name in unknown]
            raise ConfigError(problems, where="prompt.words", hint="give one word for each label")
        options = [[chosen[name]] for name in labels.names]
    elif labels.numeric:
        return None
    else:
        options = [_candidates(name, language) for name in labels.names]
    words, _ = _distinct(options, tokenizer)
    return words_of(words or [option[0] for option in options], tokenizer)


def _distinct(options: Sequence[Sequence[str]], tokenizer: TextTokenizer) -> tuple[tuple[str, ...] | None, list[int]]:
    """Words whose first tokens all differ, as near the front of their lists as can be in sum, and these tokens.

    The least-cost assignment of labels to tokens, so that many labels take no longer than a few; None without any.
    """
    from scipy.optimize import linear_sum_assignment

    ranks = [{tokenizer.word_ids(words[i])[0]: i for i in reversed(range(len(words)))} for words in options]
    tokens = sorted({token for by_token in ranks for token in by_token})
    costs = np.array([[by_token.get(token, np.inf) for token in tokens] for by_token in ranks])
    try:
        _, columns = linear_sum_assignment(costs)
    except ValueError:  # no assignment has a finite cost
        return None, []
    if len(columns) < len(options):
        return None, []
    first = [tokens[column] for column in columns]
    return tuple(words[by[token]] for words, by, token in zip(options, ranks, first, strict=True)), first


def head_from_words(words: LabelWords, lm_head_rows: Tensor) -> Tensor:
    """Head weights, shape (C, D), float32: each label's rows of the language model's head, averaged, less their mean.

    `lm_head_rows` holds one row per entry of `flat_ids(words)`. Subtracting the mean row over labels changes every
    logit of a text by the same amount, so softmax stays what it was and the first logits are small.
    """
    parts = torch.split(lm_head_rows.float(), [len(ids) for ids in words.token_ids])
    rows_CD = torch.stack([part.mean(dim=0) for part in parts])
    return rows_CD - rows_CD.mean(dim=0, keepdim=True)


def flat_ids(words: LabelWords) -> list[int]:
    """All token ids of all labels, one after the other."""
    return [token for ids in words.token_ids for token in ids]


def random_head(num_labels: int, hidden: int, *, generator: torch.Generator) -> Tensor:
    """Head weights, shape (C, D), normal with the standard deviation 0.02 that transformers gives its heads."""
    return torch.randn(num_labels, hidden, generator=generator) * 0.02
