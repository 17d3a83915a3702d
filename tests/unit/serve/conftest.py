"""The counting classifier, fresh for every test."""

import counting
import pytest
from tokenizers import Tokenizer

from tonetune.runtime import TextClassifier


@pytest.fixture
def classifier(tiny_tokenizer: Tokenizer) -> TextClassifier:
    return counting.classifier(tiny_tokenizer)
