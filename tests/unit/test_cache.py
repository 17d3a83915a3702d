"""Where tonetune keeps what it can make again."""

from pathlib import Path

from tonetune.cache import cache_root


def test_the_cache_is_where_the_user_says(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("TONETUNE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == Path("/home/me/.cache/tonetune")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert cache_root() == Path("/fast/tonetune")
    monkeypatch.setenv("TONETUNE_CACHE", "~/models")
    assert cache_root() == Path("/home/me/models")
