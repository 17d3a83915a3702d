"""A classifier to call cleans as its manifest says, and refuses a manifest that it cannot follow."""

from types import SimpleNamespace
from typing import Any

import pytest

from tonetune.data.cleaning import STANDARD_RULES, cleaning_rules
from tonetune.data.template import Template
from tonetune.errors import DataError, ModelError
from tonetune.labels import LabelSet
from tonetune.runtime import TextClassifier

LABELS = LabelSet(("a", "b"))
ONE_TURN: Any = SimpleNamespace(tokenizer=SimpleNamespace(template=Template.parse("{text}")))


def test_texts_are_cleaned_by_the_rules_of_the_manifest() -> None:
    standard = TextClassifier(ONE_TURN, LABELS, 1.0, STANDARD_RULES)
    removing = TextClassifier(ONE_TURN, LABELS, 1.0, cleaning_rules(urls="remove", mentions="placeholder"))
    text = " see  http://a.b/c @ann"
    assert standard.cleaned(text, place="text 0") == "see http://a.b/c @ann"
    assert removing.cleaned(text, place="text 0") == "see @user"
    with pytest.raises(DataError, match="empty") as error:
        removing.cleaned("http://a.b/c", place="text 7")
    assert error.value.where == "text 7"


def test_a_rule_that_this_version_lacks_is_refused() -> None:
    with pytest.raises(ModelError, match="emoji_remove"):
        TextClassifier(ONE_TURN, LABELS, 1.0, ("markup", "emoji_remove"))
