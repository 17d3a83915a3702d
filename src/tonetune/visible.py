"""Characters that act instead of showing, spelled out: texts and labels come from files, and files from anywhere."""

import re

# C0 and C1 controls but tab and line ends, direction overrides, and lone surrogates
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with characters that act instead of showing (terminal escapes, direction overrides) spelled out."""
    return _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)
