"""The template: the fixed words around a text, ending where the language model would say the label's word.

Imports nothing heavy, so that the torch-free runtime uses the same code.
"""

import re
from dataclasses import dataclass

from tonetune.errors import ConfigError

TEXT_FIELD = "{text}"
FIELD = re.compile(r"\{(?:text|turn[1-9]\d*)\}")


def text_fields(num_turns: int) -> list[str]:
    """The places in a template for a text, or for its turns: {text}, or {turn1}, {turn2}, …"""
    return [TEXT_FIELD] if num_turns == 1 else [f"{{turn{i}}}" for i in range(1, num_turns + 1)]


def with_turns(source: str, num_turns: int) -> str:
    """A template's {text} replaced, for several turns, by {turn1}, {turn2}, … on lines of their own."""
    return source.replace(TEXT_FIELD, "\n".join(text_fields(num_turns)))


@dataclass(frozen=True)
class Template:
    """The fixed parts around a text, or around and between its turns: one more than there are turns.

    The label's word would follow the last part, `suffix`.
    """

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, source: str) -> "Template":
        """Split a template such as "{text}\\nSentiment:" at its one {text}, or at {turn1}, {turn2}, … in this order.

        Raises ConfigError for a template without them.
        """
        fields = FIELD.findall(source)
        if not fields or fields != text_fields(len(fields)):
            raise ConfigError(
                [f"the template holds {', '.join(fields) or 'no place for a text'}"],
                where="prompt.template",
                hint="it takes {text} once, or {turn1}, {turn2}, … once each in this order: '{text}\\nSentiment:'",
            )
        return cls(tuple(FIELD.split(source)))

    @property
    def num_turns(self) -> int:
        return len(self.parts) - 1

    @property
    def prefix(self) -> str:
        return self.parts[0]

    @property
    def suffix(self) -> str:
        return self.parts[-1]

    @property
    def source(self) -> str:
        """The template as the user writes it."""
        fields = [*text_fields(self.num_turns), ""]
        return "".join(part + field for part, field in zip(self.parts, fields, strict=True))

    def spoken(self, word: str) -> str:
        """`word` as it stands behind the template: a Latin word is set apart by a blank, a Chinese one is not."""
        glued = not self.suffix or self.suffix[-1].isspace() or not self.suffix[-1].isascii() or not word[:1].isascii()
        return word if glued else f" {word}"


DEFAULT_TEMPLATES = {
    ("zh", "sentiment"): "{text}\n总体评价：",
    ("zh", "emotion"): "{text}\n心情：",
    ("en", "sentiment"): "{text}\nSentiment:",
    ("en", "emotion"): "{text}\nEmotion:",
}
"""By language of the texts and kind of the labels; chosen on validation rows, see docs/lab.md."""
