"""Label names that differ by accident: case, blanks, full-width forms, typing errors."""

import re
import unicodedata
from collections.abc import Mapping

MOST_NAMES = 500  # a column with more distinct values holds no names of classes
RARE = 10  # a misspelt name is at least this many times rarer than the right one
TYPO_CHARACTERS = 4  # names shorter than this differ by one letter too easily: sad, mad, bad
TWO_TYPOS_CHARACTERS = 8
LONGEST_CHARACTERS = 40  # a longer one is a text


def near_misses(counts: Mapping[str, int]) -> dict[str, str]:
    """Each name that looks like a slip for another one, mapped to that name: what `data.rename` would hold.

    `counts` has the rows of every name as written. Names equal but for case, blanks, joining signs and character width
    are one name, and the most frequent spelling wins; a rare name one letter (from eight letters on: two) from a
    frequent one is a typing error, unless it holds digits. More than 500 names are ids or texts: none is then a slip.
    """
    if len(counts) > MOST_NAMES:
        return {}
    ranked = sorted(counts, key=lambda name: (-counts[name], name != name.strip(), name))
    right: dict[str, str] = {}
    renames: dict[str, str] = {}
    for name in ranked:
        folded = _folded(name)
        if folded in right:
            renames[name] = right[folded]
            continue
        meant = _meant(folded, right, counts, at_least=RARE * counts[name])
        if meant is None:
            right[folded] = name
        else:
            renames[name] = meant
    return {name: target.strip() for name, target in renames.items() if name != target.strip()}


def _meant(folded: str, right: Mapping[str, str], counts: Mapping[str, int], *, at_least: int) -> str | None:
    """The name that has at least so many rows and is meant by a slip; `right` has the most frequent names first."""
    for key, name in right.items():
        if counts[name] < at_least:
            return None
        if _is_typo(folded, key):
            return name
    return None


def _folded(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"(?<=\w)[\s_\-]+(?=\w)", "", folded) if any(map(str.isalpha, folded)) else folded


def _is_typo(name: str, right: str) -> bool:
    shorter, longer = sorted((len(name), len(right)))
    most = 2 if shorter >= TWO_TYPOS_CHARACTERS else 1
    if shorter < TYPO_CHARACTERS or longer > LONGEST_CHARACTERS or longer - shorter > most:
        return False
    return not any(c.isdigit() for c in name + right) and edit_distance(name, right) <= most


def edit_distance(a: str, b: str) -> int:
    """Fewest insertions, deletions, substitutions and swaps of neighbours (each pair once) that turn `a` into `b`.

    The optimal string alignment distance: Damerau-Levenshtein without editing a swapped pair again.
    """
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
