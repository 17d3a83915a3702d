"""Label names that are not what they seem: slips, synonyms, decimals, signs of a missing label, measurements."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping

from tonetune.data.columns import NUMERIC_LABELS
from tonetune.data.concepts import known_concept
from tonetune.labels import all_numbers

MOST_NAMES = 500  # a column with more distinct values holds no names of classes
RARE = 10  # a misspelt name is at least this many times rarer than the right one
TYPO_CHARACTERS = 4  # names shorter than this differ by one letter too easily: sad, mad, bad
TWO_TYPOS_CHARACTERS = 8
LONGEST_CHARACTERS = 40  # a longer one is a text
NO_LABEL = frozenset(
    "nan null <null> n/a #n/a <na> nat None - -- ? ?? unlabelled unlabeled tbd todo #value! #ref!"
    " 未标注 待标注 无标签".split()
)
WHOLE_DECIMAL = re.compile(r"[+-]?\d+\.0*")


def suspects(counts: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Names that should be other names, by the code of their problem, each mapped to what `data.rename` would hold.

    `counts` has the rows of every name as written. Codes: "no_label_labels" (signs of a missing label, mapped to ""),
    "decimal_labels" (1.0 for 1), "near_miss_labels" (slips) and "synonym_labels" (one meaning, in any language).
    No name is mapped to one that is itself mapped. Measurements, and more than 500 names, have none.
    """
    if measures(counts) or len(counts) > MOST_NAMES:
        return {}
    found = {"no_label_labels": {name: "" for name in counts if _means_no_label(name)}}
    names = [name for name in counts if name not in found["no_label_labels"]]
    found["decimal_labels"] = decimals = _decimals(names)
    rest = {name: counts[name] for name in names if name not in decimals}
    found["near_miss_labels"] = slips = near_misses(rest)
    merged = {name: n for name, n in rest.items() if name not in slips}
    for name, target in slips.items():
        merged[target] = merged.get(target, 0) + rest[name]
    found["synonym_labels"] = same = _synonyms(merged)
    found["near_miss_labels"] = {name: same.get(target, target) for name, target in slips.items()}
    return {code: renames for code, renames in found.items() if renames}


def _means_no_label(name: str) -> bool:
    return bool(NO_LABEL.intersection((name.strip(), name.strip().casefold())))


def _decimals(names: Collection[str]) -> dict[str, str]:
    """Whole numbers with a decimal point, as a spreadsheet writes classes beside an empty cell."""
    matching = [name for name in names if WHOLE_DECIMAL.fullmatch(name.strip())] if all_numbers(names) else []
    return {name: str(int(float(name))) for name in matching}


def _synonyms(counts: Mapping[str, int]) -> dict[str, str]:
    """Each name that means what a more frequent one means, mapped to that one."""
    first: dict[str, str] = {}
    renames = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        if concept := known_concept(name):
            right = first.setdefault(concept.name, name)
            if right != name:
                renames[name] = right
    return renames


def measures(names: Collection[str]) -> bool:
    """Whether label names are numbers that measure something: more than 20 different ones."""
    return len(names) > NUMERIC_LABELS and all_numbers(names)


def numbers_in_words(counts: Mapping[str, int]) -> str:
    """What a column of more than 20 different numbers seems to measure."""
    numbers = sorted(map(float, counts))
    span = f"{len(counts):,} different numbers from {numbers[0]:g} to {numbers[-1]:g}"
    if not all(number.is_integer() for number in numbers):
        return f"{span}, some with decimals, such as ratings or probabilities"
    if max(counts.values()) == 1:
        return f"{span}, each in one row, as ids are"
    return f"{span}, such as ages or counts"


# Cyrillic and Greek letters that are drawn as Latin ones, from Unicode's list of confusables (UTS 39)
LOOK_ALIKES = str.maketrans(
    "асеоріѕјхуԛԝһӏԁАВЕКМНОРСТХУЅІЈԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧνοι", "aceopisjxyqwhldABEKMHOPCTXYSIJQWABEZHIKMNOPTYXvoi"
)

FOLDS: Mapping[str, Callable[[str], str]] = {
    "blanks": lambda name: _joined(name.strip()),
    "case": str.casefold,
    "full-width characters": lambda name: unicodedata.normalize("NFKC", name),
    "invisible characters": lambda name: "".join(c for c in name if unicodedata.category(c) != "Cf"),
    "look-alike letters": lambda name: name.translate(LOOK_ALIKES),
}


def look_alikes(names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs of names that are drawn alike: equal but for invisible characters, composition, scripts and blanks."""
    first: dict[str, str] = {}
    pairs = []
    for name in sorted(names):
        drawn = name
        for fold in ("look-alike letters", "invisible characters"):
            drawn = FOLDS[fold](drawn)
        drawn = " ".join(unicodedata.normalize("NFC", drawn).split())
        if drawn in first:
            pairs.append((first[drawn], name))
        first.setdefault(drawn, name)
    return pairs


def difference(name: str, meant: str) -> str:
    """Why two names count as one, in a few words."""
    kinds = [kind for kind, fold in FOLDS.items() if fold(name) == fold(meant)]
    if kinds:
        return kinds[0]
    return "several of case, blanks, character forms" if _folded(name) == _folded(meant) else "a typing error"


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
    for fold in ("look-alike letters", "invisible characters", "full-width characters", "case", "blanks"):
        name = FOLDS[fold](name)
    return name


def _joined(name: str) -> str:
    """A name of letters without the blanks and joining signs between its words."""
    return re.sub(r"(?<=\w)[\s_\-]+(?=\w)", "", name) if any(map(str.isalpha, name)) else name


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
