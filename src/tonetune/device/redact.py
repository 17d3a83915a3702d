"""Documents without names of people and machines, addresses, serial numbers and paths, to be shown to strangers."""

import contextlib
import getpass
import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

KEPT = (
    r"https://download\.pytorch\.org/whl/[\w.]+",  # the lines that install torch
    r"/dev/(?:kfd|shm|nvidiactl|nvidia\d+|dri(?:/renderD\d+)?)(?![\w/.-])",
    r"/sys/class/kfd(?![\w/.-])",
    r"<user>@<host>",
)
COMMON_DOMAINS = "com|org|net|edu|gov|io|ai|dev|local|localdomain|lan|internal|intranet|corp|cloud|home|example|test"
NO_COUNTRIES = "py|so|nn|cc|sh|md|id"
FILES = "py|c|cc|cpp|cu|hip|h|so|csv|tsv|txt|json|jsonl|yaml"
HEX = "[0-9a-fA-F]"
GROUPS = rf"{HEX}{{1,4}}(?::{HEX}{{1,4}})*"
PATTERNS = {
    "kept": "|".join(KEPT),
    "url": r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"']+",
    "address": r"[\w.+<>-]+@[\w<>][\w.<>-]*(?::[^\s\"']*)?",  # of mail, of ssh with its path
    "uuid": rf"(?<![\w-])(?:(?:GPU|MIG)-)?{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}(?![\w-])"
    rf"|\b(?:GPU|MIG)-{HEX}{{6,}}\b",
    "mac": rf"(?<![\w:-])(?:{HEX}{{2}}[:-]){{5}}{HEX}{{2}}(?![\w:-])",
    "ip": rf"(?<![\w.])\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w.]*\w)|(?<![\w:])(?:(?:{GROUPS})?::(?:{GROUPS})|{GROUPS}::"
    rf"|(?:{HEX}{{1,4}}:){{7}}{HEX}{{1,4}})(?![\w:])",
    "serial": r"(?i:\bserial(?:[ _-]?(?:number|num|no))?\b)[\s:=#\"'.]*[\w-]*\d[\w-]*",
    "path": r"(?P<quote>[\"'])(?:~|[A-Za-z]:|\.{0,2})[/\\][^\"'\n]*(?P=quote)"
    r"|(?:~[\w.<>-]*|\b[A-Za-z]:|(?<![\w./\\])\.{0,2})[/\\][^\s\"':;,()|\[\]]+"
    r"|(?<![\w./\\-])(?:[\w<>.+-]+[/\\]){2,}[\w<>.+-]*"  # relative: of two parts with a dot, or of more
    r"|(?<![\w./\\-])(?=[\w.-]*[A-Za-z])(?:[\w<>+-]+\.[\w<>.+-]+[/\\][\w<>.+-]*|[\w<>.+-]+[/\\][\w<>.+-]*\.[A-Za-z]\w*)",
    "host": rf"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:{COMMON_DOMAINS})(?::\d+)?(?![\w.-]*\w)"
    rf"|(?<![\w.-])[A-Za-z][\w-]*(?:\.[\w-]+)+\.(?!(?:{NO_COUNTRIES})\b)[a-z]{{2}}(?::\d+)?(?![\w.-]*\w)"
    rf"|(?<![\w.-])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*\.(?!(?:{FILES})\b)[A-Za-z][\w-]*:\d{{2,5}}\b",
    "number": rf"\b(?:0x{HEX}{{12,}}|\d{{13,}}|(?=\d*[a-fA-F]){HEX}{{12,}})\b",  # 12 digits are bytes of memory
}
PRIVATE = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS.items()))
HOST_VARIABLES = ("HOSTNAME", "HOST", "COMPUTERNAME", "SLURMD_NODENAME", "NODE_NAME", "POD_NAME", "MASTER_ADDR")
USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME", "SLURM_JOB_USER")

SETTING = r"-?\d{1,8}(?:\.\d{1,8}){0,2}|gfx[0-9a-f]{3,5}|true|false|yes|no|on|off|none|all|info|warn|trace|version"
PLAIN = re.compile(rf"(?:(?:[a-z_]+:)?(?:{SETTING})(?:[,;] ?|$))*", re.IGNORECASE)


def user_names() -> set[str]:
    """What this user is called here: in the account, the home directory and behind sudo."""
    found = {Path.home().name, *(os.environ.get(name, "") for name in USER_VARIABLES)}
    with contextlib.suppress(KeyError, OSError):  # a container may know no name for a number
        found.add(getpass.getuser())
        found.add(pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0])
    return found - {"", "root"}


def host_names() -> set[str]:
    """What this machine is called, with and without its domain, and the domain; what its cluster calls it."""
    names = {socket.gethostname(), *(os.environ.get(name, "") for name in HOST_VARIABLES)}
    domains = {domain for name in names if "." in (domain := name.partition(".")[2])}
    return domains | {part for name in names for part in (name, name.partition(".")[0])} - {"", "localhost"}


def private_values(variables: Mapping[str, str]) -> set[str]:
    """Values of variables that are more than numbers and switches: they may name anything."""
    return {value for value in variables.values() if not PLAIN.fullmatch(value)}


def redacted(document: Any, *, users: Iterable[str], hosts: Iterable[str], values: Iterable[str] = ()) -> Any:
    """A copy of a JSON document whose texts and keys hold no users, hosts, values, addresses, serial numbers and paths.

    A host's name with a number stands for its neighbours too, node7 for node12. Paths of device files that tell what is
    wrong, and the index that torch comes from, are kept.
    """
    groups = (("set", _any_of(values)), ("user", _any_of(users)), ("host", _any_of(hosts, numbered=True)))
    named = re.compile(
        rf"(?<![A-Za-z0-9])(?:{'|'.join(f'(?P<{label}>{names})' for label, names in groups)})(?![A-Za-z0-9])",
        re.IGNORECASE,
    )

    def clean_text(text: str) -> str:
        text = named.sub(lambda found: f"<{found.lastgroup}>", text)
        return PRIVATE.sub(lambda found: found["kept"] or f"<{_kind(found)}>", text)

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {clean_text(key): clean(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(part) for part in value]
        return clean_text(value) if isinstance(value, str) else value

    return clean(document)


def _kind(found: re.Match[str]) -> str:
    return next(name for name in PATTERNS if found[name] is not None)


def _any_of(names: Iterable[str], *, numbered: bool = False) -> str:
    """A pattern of some names, the longest first; `numbered` names match with any other number in its place."""
    patterns = []
    for name in sorted(names, key=len, reverse=True):
        any_number = numbered and re.match(r"[A-Za-z_-]{3,}\d", name)
        patterns.append(re.sub(r"\d+", r"\\d+", re.escape(name)) if any_number else re.escape(name))
    return "|".join(patterns) or "(?!)"
