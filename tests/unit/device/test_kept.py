"""What is kept is found again by an equal key and by no other; what cannot be read or written is as if never kept."""

import pytest
import torch

from tonetune.device.kept import keep, read_kept

KEY = {"torch": "2.13", "dtype": torch.float32, "shape": [2, 3]}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_equal_key_finds_it():
    keep("kind", KEY, {"a": [1, None]})
    assert read_kept("kind", dict(reversed(KEY.items()))) == {"a": [1, None]}
    keep("kind", KEY, 7)
    assert read_kept("kind", KEY) == 7


@pytest.mark.parametrize("change", [{"torch": "2.14"}, {"dtype": torch.bfloat16}, {"shape": [3, 2]}, {"more": 1}])
def test_another_key_does_not(change):
    keep("kind", KEY, 7)
    assert read_kept("kind", {**KEY, **change}) is None
    assert read_kept("other", KEY) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "7", "{}"])
def test_a_damaged_file_is_as_none(cache, damage):
    keep("kind", KEY, 7)
    (file,) = (cache / "kind").iterdir()
    file.write_text(damage)
    assert read_kept("kind", KEY) is None


def test_a_cache_that_cannot_be_written_is_no_error(cache):
    cache.write_text("a file where the directory would be")
    keep("kind", KEY, 7)
    assert read_kept("kind", KEY) is None
