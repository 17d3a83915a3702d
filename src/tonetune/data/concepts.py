"""What label names mean: the names a label goes by in English and Chinese, and the words a model would say for it."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Concept:
    """One row of words.tsv: the names a label goes by, the standard one first, and `words` by language, best first."""

    names: tuple[str, ...]
    words: dict[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return self.names[0]


@cache
def _concepts() -> dict[str, Concept]:
    """Every concept by each of its names."""
    lines = files("tonetune.data").joinpath("words.tsv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
    split = ({column: tuple(cell.split("|")) for column, cell in row.items()} for row in rows)
    concepts = [Concept(row.pop("names"), row) for row in split]
    return {name: concept for concept in concepts for name in concept.names}


def all_words(language: str) -> set[str]:
    """Every word of the table that a model could say in a language, "en" or "zh"."""
    return {word for concept in _concepts().values() for word in concept.words[language]}


def known_concept(label: str) -> Concept | None:
    """The concept that a label's name stands for, whatever its case; None for an unknown name."""
    return _concepts().get(label.strip().casefold().replace("_", " "))
