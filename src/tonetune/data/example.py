"""The one datum that travels through tonetune: a text, its labels, and the row it came from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TURN_END = "\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled text.

    `text`: of several turns, such as those of a chat, each is a line.
    `labels` has one name for single-label tasks and is empty for a text without a label.
    `origin` is the file and row a person can look up, such as "reviews.csv:17".
    """

    text: str
    labels: tuple[str, ...]
    origin: str

    @property
    def label(self) -> str:
        """The only label of a single-label example."""
        (label,) = self.labels
        return label

    def as_row(self, *, multi_label: bool, num_turns: int = 1) -> dict[str, object]:
        """The row as tonetune writes it: "text" or "turn1", "turn2", …, "label" or the list "labels", and "origin"."""
        turns = self.text.split(TURN_END) if num_turns > 1 else []
        text = {f"turn{i}": turn for i, turn in enumerate(turns, start=1)} or {"text": self.text}
        label = {"labels": list(self.labels)} if multi_label else {"label": next(iter(self.labels), None)}
        return {**text, **label, "origin": self.origin}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Example":
        """The example of a row that `as_row` made."""
        turns = [row[key] for i in range(1, len(row)) if (key := f"turn{i}") in row]
        labels = row["labels"] if "labels" in row else [row["label"]]
        return cls(TURN_END.join(turns) if turns else row["text"], tuple(labels), row["origin"])


def joined_turns(turns: Iterable[str]) -> str:
    """Turns as one text, a line each; line breaks and repeated blanks within a turn become one blank."""
    return TURN_END.join(" ".join(turn.split()) for turn in turns)
