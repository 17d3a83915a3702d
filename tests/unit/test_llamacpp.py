"""llama.cpp behind a classifier: what is said where it is absent. Its answers are tested in flows/test_export.py."""

import sys

import pytest

from tonetune.errors import MissingExtraError
from tonetune.llamacpp import require_llama


def test_without_llama_cpp_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingExtraError, match="extra 'llama'") as caught:
        require_llama()
    assert caught.value.hint == "pip install 'tonetune[llama]'"
