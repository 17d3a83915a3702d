"""The one datum that travels through tonetune: a text, its labels, and the row it came from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled text.

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
