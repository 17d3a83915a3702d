"""The place for what tonetune can make again."""

import os
from pathlib import Path


def cache_root() -> Path:
    """TONETUNE_CACHE where it is set, else tonetune below the user's cache directory."""
    if chosen := os.environ.get("TONETUNE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tonetune"
