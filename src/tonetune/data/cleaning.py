"""Cleaning of texts and labels: named rules, each counted, and every row that is changed or dropped kept as read."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import ftfy

from tonetune.data.example import TURN_END, Example
from tonetune.data.rows import Dropped
from tonetune.labels import LabelSet

# Only text decoded in the wrong encoding is repaired: quotes, full-width forms and ligatures are the writer's own.
MOJIBAKE = ftfy.TextFixerConfig(
    unescape_html=False,
    remove_terminal_escapes=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    uncurl_quotes=False,
    fix_line_breaks=False,
    fix_surrogates=False,
    remove_control_chars=False,
    fix_c1_controls=False,
    normalization=None,
)
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
BREAKING_TAG = re.compile(
    r"</?(?:br|p|div|li|ul|ol|tr|td|th|table|h[1-6]|hr|blockquote)(?:\s+[\w:-]+=[^<>]*)?\s*/?>", re.IGNORECASE
)
INLINE_TAG = re.compile(
    r"</?(?:a|b|i|u|s|em|strong|span|font|small|big|sub|sup|img|code|pre|tbody|thead|html|body)(?:\s+[\w:-]+=[^<>]*)?\s*/?>",
    re.IGNORECASE,
)
# Controls but tab and line ends, invisible marks, direction overrides and halves of surrogate pairs. The joiners
# U+200C and U+200D and the variation selectors stay: emoji and several scripts are built with them.
CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
URL = re.compile(r"(?:https?://|www\.)[!-~]+", re.IGNORECASE)
MENTION = re.compile(r"(?<![\w.])@\w+")
ROUNDS = 50  # markup nested deeper than this is meant to break the cleaning
MARKUP_SIGNS = str.maketrans("<&", "  ")


def _fix_mojibake(text: str) -> str:
    return ftfy.fix_text(text, MOJIBAKE) if ftfy.badness.is_bad(text) else text


def _strip_markup(text: str) -> str:
    text = ENTITY.sub(lambda match: html.unescape(match.group()), text)
    return INLINE_TAG.sub("", BREAKING_TAG.sub(" ", _strip_comments(text)))


def _strip_comments(text: str) -> str:
    parts, begin = [], 0
    while (start := text.find("<!--", begin)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[begin:start])
        begin = end + 3
    return " ".join([*parts, text[begin:]])


RULES: Mapping[str, Callable[[str], str]] = {
    "mojibake": _fix_mojibake,
    "markup": _strip_markup,
    "control": lambda text: CONTROL.sub("", text),
    "unicode": lambda text: unicodedata.normalize("NFC", text),
    "urls_placeholder": lambda text: URL.sub("[URL]", text),
    "urls_remove": lambda text: URL.sub("", text),
    "mentions_placeholder": lambda text: MENTION.sub("@user", text),
    "mentions_remove": lambda text: MENTION.sub("", text),
    "whitespace": lambda text: " ".join(text.split()),
}
STANDARD_RULES = ("mojibake", "markup", "control", "unicode", "whitespace")


def cleaning_rules(*, urls: str, mentions: str) -> tuple[str, ...]:
    """Names of the rules to clean with, in order; `urls` and `mentions` are "keep", "placeholder" or "remove"."""
    chosen = {*STANDARD_RULES, f"urls_{urls}", f"mentions_{mentions}"}
    return tuple(rule for rule in RULES if rule in chosen)


def clean_text(text: str, rules: Iterable[str] = STANDARD_RULES) -> tuple[str, tuple[str, ...]]:
    """The text after `rules` (names in RULES, applied in order until nothing changes) and the rules that changed it.

    Training, evaluation and prediction all clean with this function. Cleaning twice changes nothing more. After 50
    rounds every "<" and "&" still there becomes a blank, so that the work is bounded by the length of the text.
    """
    rules = tuple(rules)
    changed: set[str] = set()
    for _ in range(ROUNDS):
        text, by_rules = _clean_once(text, rules)
        changed |= by_rules
        if not by_rules:
            break
    else:
        text, by_rules = _clean_once(text.translate(MARKUP_SIGNS), rules)
        changed |= by_rules
    return text, tuple(rule for rule in rules if rule in changed)


def _clean_once(text: str, rules: Iterable[str]) -> tuple[str, set[str]]:
    changed = set()
    for rule in rules:
        before, text = text, RULES[rule](text)
        if text != before:
            changed.add(rule)
    return text, changed


@dataclass(frozen=True, slots=True)
class Changed:
    """A row that cleaning changed, as it was read, and the rules that changed it; "label" is a rename."""

    example: Example
    rules: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """The row as `changed.jsonl` holds it."""
        label = ", ".join(self.example.labels) or None
        return {"origin": self.example.origin, "text": self.example.text, "label": label, "rules": list(self.rules)}


@dataclass(frozen=True)
class Cleaned:
    """Usable rows in order, the rows dropped, and the rows changed, both as they were read."""

    examples: list[Example]
    dropped: list[Dropped]
    changed: list[Changed]


def clean_turns(text: str, num_turns: int, rules: Iterable[str] = STANDARD_RULES) -> tuple[str, tuple[str, ...]]:
    """As `clean_text`, for a text of so many turns, one a line, each cleaned by itself; "" where nothing is left."""
    if num_turns == 1:
        return clean_text(text, rules)
    rules = tuple(rules)
    turns = [clean_text(turn, rules) for turn in text.split(TURN_END)]
    changed = {rule for _, by_rules in turns for rule in by_rules}
    cleaned = TURN_END.join(turn for turn, _ in turns)
    return cleaned if cleaned.strip() else "", tuple(rule for rule in rules if rule in changed)


def clean_rows(
    rows: Iterable[Example],
    *,
    rename: Mapping[str, str],
    labels: LabelSet | None = None,
    rules: Iterable[str] = STANDARD_RULES,
    multi_label: bool = False,
    num_turns: int = 1,
) -> Cleaned:
    """Rename labels, clean texts by `rules`, and drop rows without a text ("empty_text") or a label ("missing_label").

    Of `multi_label` rows those without a label stay. Labels are renamed as written or without the blanks around them,
    then those blanks are removed. A row that nothing changes stays the same object. Raises UnknownLabelError, with its
    origin, for a label outside `labels` where that is given.
    """
    examples, dropped, changed, rules = [], [], [], tuple(rules)
    for row in rows:
        text, by_rules = clean_turns(row.text, num_turns, rules)
        names = tuple(dict.fromkeys(name for label in row.labels if (name := renamed(label, rename))))
        if names != row.labels:
            by_rules = (*by_rules, "label")
        example = row
        if by_rules:
            example = replace(row, text=text, labels=names)
            changed.append(Changed(row, by_rules))
        if not text:
            dropped.append(Dropped(row, "empty_text"))
        elif not names and not multi_label:
            dropped.append(Dropped(row, "missing_label"))
        else:
            if labels is not None:
                for name in names:
                    labels.index(name, origin=row.origin)
            examples.append(example)
    return Cleaned(examples, dropped, changed)


def renamed(label: str, rename: Mapping[str, str]) -> str:
    """The label after `data.rename`, without blanks around it."""
    return rename.get(label, rename.get(label.strip(), label)).strip()
