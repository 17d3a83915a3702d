"""Characters that act instead of showing, spelled out: texts and labels come from files, and files from anywhere."""

import re

# C0 and C1 controls but tab and line ends, marks and overrides of direction, blanks of no width but the joiners that
# emoji and several scripts are built with, foreign line ends, and lone surrogates
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with characters that act instead of showing (terminal escapes, direction overrides) spelled out."""
    return _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)
