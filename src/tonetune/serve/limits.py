"""What a service takes at most, and their defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from tonetune.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Limits of one service; those of texts and tokens hold for each model."""

    body_bytes: int = 8 << 20
    """Of a request."""
    texts: int = 1000
    """Of a request."""
    characters: int = 100_000
    """Of a text."""
    queue_texts: int = 4096
    """Waiting to be scored; what finds no room is answered 429."""
    batch_tokens: int = 4096
    """Scored together; a longer text stands alone."""
    timeout_s: int = 60
    """For a request to arrive, and for it to be scored."""

    def changed(self, settings: Iterable[str]) -> "Limits":
        """These limits with settings such as "texts=100". Raises UsageError for an unknown name or a bad value."""
        values: dict[str, int] = {}
        names = [field.name for field in fields(self)]
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in names or not (value.isascii() and value.isdigit() and int(value)):
                hint = f"NAME=NUMBER, with a name of {', '.join(names)}"
                raise UsageError(f"{setting!r} is no limit", where="--limit", hint=hint)
            values[name] = int(value)
        limits = replace(self, **values)
        if limits.queue_texts < limits.texts:
            what = f"a request of {limits.texts:,} texts never fits into a queue of {limits.queue_texts:,}"
            raise UsageError(what, where="--limit", hint="raise queue_texts or lower texts")
        return limits
