"""The template: the fixed words around a text, ending where the language model would say the label's word.

Imports nothing heavy, so that the torch-free runtime uses the same code.
"""

from dataclasses import dataclass

from tonetune.errors import ConfigError

TEXT_FIELD = "{text}"


@dataclass(frozen=True)
class Template:
    """`prefix` + text + `suffix`; the label's word would follow `suffix`."""

    prefix: str
    suffix: str

    @classmethod
    def parse(cls, source: str) -> "Template":
        """Split a template such as "{text}\\nSentiment:" at its one {text}. Raises ConfigError without exactly one."""
        if source.count(TEXT_FIELD) != 1:
            raise ConfigError(
                [f"the template holds {TEXT_FIELD} {source.count(TEXT_FIELD)} times; it must hold it once"],
                where="prompt.template",
                hint="for example: '{text}\\nSentiment:'",
            )
        prefix, suffix = source.split(TEXT_FIELD)
        return cls(prefix, suffix)

    @property
    def source(self) -> str:
        """The template as the user writes it."""
        return f"{self.prefix}{TEXT_FIELD}{self.suffix}"

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
