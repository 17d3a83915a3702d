"""What was found out about this machine, kept in the cache by all that it depends on."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from tonetune.cache import cache_root, open_cache
from tonetune.errors import DataError, DiskError
from tonetune.rundir import read_json, write_json


def read_kept(kind: str, key: object) -> Any:
    """What was kept for this key, as JSON holds it; None where nothing was, or it is damaged or may be another's."""
    try:
        return read_json(_path(kind, key))["found"]
    except (DataError, DiskError, KeyError, TypeError):
        return None


def keep(kind: str, key: object, found: object) -> None:
    """Keep `found`; a cache that cannot be written costs time only."""
    with contextlib.suppress(DiskError):
        open_cache()
        write_json(_path(kind, key), {"key": json.loads(_text(key)), "found": found})


def _path(kind: str, key: object) -> Path:
    return cache_root() / kind / f"{hashlib.sha256(_text(key).encode()).hexdigest()[:16]}.json"


def _text(key: object) -> str:
    return json.dumps(key, sort_keys=True, default=str)
