"""What is settled before the first step."""

import pytest

from tonetune.api.setup import MUCH_TRUNCATED, truncation_note


@pytest.mark.parametrize(("texts", "said", "warned"), [(0, False, False), (3, True, False), (50, True, True)])
def test_texts_over_the_limit_are_said_and_many_are_a_warning(texts, said, warned):
    assert 0.03 < MUCH_TRUNCATED < 0.5
    note = truncation_note({"truncated_texts": texts, "truncated_share": texts / 100}, 48)
    assert bool(note) == said
    assert (note or "").startswith("warning: ") == ("data.max_length" in (note or "")) == warned
