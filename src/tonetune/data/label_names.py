"""Label names that differ by accident: case, blanks, full-width forms, typing errors."""

import re
import unicodedata
from collections.abc import Mapping

RARE = 10  # a misspelt name is at least this many times rarer than the right one
TYPO_CHARACTERS = 4  # names shorter than this differ by one letter too easily: sad, mad, bad
TWO_TYPOS_CHARACTERS = 8


def near_misses(counts: Mapping[str, int]) -> dict[str, str]:
    """Each name that looks like a slip for another one, mapped to that name: what `data.rename` would hold.

    `counts` has the rows of every name as written. Names equal but for case, blanks, joining signs and character width
    are one name, and the most frequent spelling wins; a rare name one letter (from eight letters on: two) from a
    frequent one is a typing error, unless it holds digits.
    """
    ranked = sorted(counts, key=lambda name: (-counts[name], name != name.strip(), name))
    right: dict[str, str] = {}
    renames: dict[str, str] = {}
    for name in ranked:
        folded = _folded(name)
        if folded in right:
            renames[name] = right[folded]
            continue
        frequent = [key for key, other in right.items() if counts[other] >= RARE * counts[name]]
        typo_of = next((key for key in frequent if _is_typo(folded, key)), None)
        if typo_of is None:
            right[folded] = name
        else:
            renames[name] = right[typo_of]
    return {name: target.strip() for name, target in renames.items() if name != target.strip()}


def _folded(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"(?<=\w)[\s_\-]+(?=\w)", "", folded) if any(map(str.isalpha, folded)) else folded


def _is_typo(name: str, right: str) -> bool:
    shorter = min(len(name), len(right))
    if shorter < TYPO_CHARACTERS or any(c.isdigit() for c in name + right):
        return False
    return edit_distance(name, right) <= (2 if shorter >= TWO_TYPOS_CHARACTERS else 1)


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
