"""Documents without the names of people and machines and without paths, to be shown to strangers."""

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KEPT = (
    r"https://download\.pytorch\.org/whl/[\w.]+",  # the lines that install torch
    r"/dev/(?:kfd|shm|nvidiactl|nvidia\d+|dri(?:/renderD\d+)?)(?![\w/.-])",
    r"/sys/class/kfd(?![\w/.-])",
)
URL = r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"']+"
PATH = r"(?:~[\w.<>-]*|\b[A-Za-z]:|(?<![\w./\\])\.{0,2})[/\\][^\s\"':;,()|]+"
PRIVATE = re.compile(f"(?P<kept>{'|'.join(KEPT)})|(?P<url>{URL})|(?P<path>{PATH})")


def user_names() -> set[str]:
    """What this user is called here: in the account, the home directory and behind sudo."""
    found = {Path.home().name, *(os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME"))}
    with contextlib.suppress(KeyError, OSError):  # a container may know no name for a number
        found.add(getpass.getuser())
    return found - {"", "root"}


def host_names() -> set[str]:
    """What this machine is called, with and without its domain."""
    names = {socket.gethostname(), os.environ.get("HOSTNAME", ""), os.environ.get("HOST", "")}
    return {part for name in names for part in (name, name.partition(".")[0])} - {"", "localhost"}


def redacted(document: Any, *, users: Iterable[str], hosts: Iterable[str]) -> Any:
    """A copy of a JSON document whose texts name neither users nor hosts nor paths; keys and numbers stay.

    Paths of device files that tell what is wrong, and the index that torch comes from, are kept.
    """
    labels = {name.lower(): label for label, names in (("<user>", users), ("<host>", hosts)) for name in names}
    longest_first = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    named = re.compile(rf"(?<![A-Za-z0-9])(?:{longest_first or '(?!)'})(?![A-Za-z0-9])", re.IGNORECASE)

    def clean_text(text: str) -> str:
        text = named.sub(lambda found: labels[found[0].lower()], text)
        return PRIVATE.sub(lambda found: found["kept"] or ("<url>" if found["url"] else "<path>"), text)

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(part) for part in value]
        return clean_text(value) if isinstance(value, str) else value

    return clean(document)
