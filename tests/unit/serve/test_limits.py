"""Laws of the limits: changed by name, and nothing but sensible numbers."""

import pytest

from tonetune.errors import UsageError
from tonetune.serve.limits import Limits


def test_settings_change_what_they_name():
    changed = Limits().changed(["texts=7", "timeout_s=3"])
    assert (changed.texts, changed.timeout_s, changed.characters) == (7, 3, Limits().characters)
    assert Limits().changed([]) == Limits()


@pytest.mark.parametrize("setting", ["nope=3", "texts", "texts=", "texts=0", "texts=-1", "texts=1.5", "texts=²", "=3"])
def test_what_is_no_limit_is_refused_with_those_there_are(setting):
    with pytest.raises(UsageError, match="is no limit") as refused:
        Limits().changed([setting])
    assert "queue_texts" in str(refused.value.hint)


def test_a_request_has_to_fit_into_the_queue():
    with pytest.raises(UsageError, match="never fits"):
        Limits().changed(["queue_texts=10"])
