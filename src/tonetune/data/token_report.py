"""What a tokenizer makes of rows: lengths, what a limit would cut, and how the words of labels and emotions split."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tonetune.data.concepts import all_words, known_concept
from tonetune.data.language import dominant_language
from tonetune.data.template import DEFAULT_TEMPLATES, Template
from tonetune.data.tokens import TextTokenizer

NO_LIMIT = 1 << 30
PERCENTILES = {"median": 50, "p90": 90, "p99": 99, "longest": 100}
FREQUENT_WORDS = 20


def token_report(
    texts: Sequence[str], labels: Iterable[str], tokenizer: Tokenizer, *, max_length: int
) -> dict[str, Any]:
    """Tokens of the texts with BOS and the default template around them, as `data.max_length` counts them.

    "tokens" has mean and percentiles, "truncated" is the share of texts beyond `max_length`, whose middle is cut.
    "label_words" and "emotion_words", the words of emotions most frequent in the texts, have the pieces of each word:
    one that splits into many tokens is one that the model hardly knows.
    """
    language = dominant_language(texts)
    template = Template.parse(DEFAULT_TEMPLATES[language, "emotion"])
    reader = TextTokenizer(
        tokenizer, template=template, bos_id=tokenizer.token_to_id("<bos>"), pad_id=0, max_length=NO_LIMIT
    )
    lengths = reader.encode(texts).lengths
    concepts = {label: known_concept(label) for label in labels}
    words = {label: concept.words[language][0] if concept else label for label, concept in concepts.items()}
    return {
        "texts": len(texts),
        "max_length": max_length,
        "tokens": {
            "mean": round(float(lengths.mean()), 1),
            **{name: int(np.percentile(lengths, q, method="higher")) for name, q in PERCENTILES.items()},
        },
        "truncated": float((lengths > max_length).mean()),
        "tokens_per_character": float(lengths.sum() / sum(map(len, texts))),
        "label_words": {label: {"word": word, "pieces": reader.pieces(word)} for label, word in words.items()},
        "emotion_words": {
            word: {"count": count, "pieces": reader.pieces(word)}
            for word, count in _frequent(texts, all_words(language)).items()
        },
    }


def _frequent(texts: Iterable[str], words: Iterable[str]) -> Mapping[str, int]:
    """The words that occur most often, with their counts; a Latin one counts where it stands by itself."""
    ordered = sorted(words, key=len, reverse=True)  # the longest word wins where several begin
    pattern = re.compile(
        "|".join(rf"(?<![^\W\d_]){re.escape(w)}(?![^\W\d_])" if w.isascii() else re.escape(w) for w in ordered)
    )
    counts = Counter(word for text in texts for word in pattern.findall(text.casefold()))
    return dict(counts.most_common(FREQUENT_WORDS))
