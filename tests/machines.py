"""Machines described in tests/fixtures/machines: a tree of files, outputs of programs, and what the doctor must say."""

import copy
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tonetune.device.host import Ended, Host

MACHINES = sorted((Path(__file__).parent / "fixtures" / "machines").glob("*.yaml"))


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")))


def described(path: Path) -> dict[str, Any]:
    """A description, to be changed at will."""
    return copy.deepcopy(_read(path))


def machine(name: str) -> dict[str, Any]:
    """The description of that name."""
    (path,) = [path for path in MACHINES if path.stem == name]
    return described(path)


def host_of(description: Mapping[str, Any], root: Path) -> Host:
    """The machine that a description describes, its files written below `root`.

    Files named in `denied` cannot be opened; `group` owns them all. `commands` has the output of each program by the
    beginning of its command line; `torch` is what the child that looks at torch writes, and its `code`.
    """
    for path, text in description.get("files", {}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    denied = {root / path for path in description.get("denied", ())}

    def run(command: Sequence[str], limit_s: float) -> Ended:
        if "torch_build" in command[-1]:
            return Ended(**{"code": 0, **description["torch"]})
        outputs = description.get("commands", {})
        return next((Ended(0, outputs[key]) for key in outputs if " ".join(command).startswith(key)), Ended(None))

    def open_device(path: Path) -> None:
        if path in denied:
            raise PermissionError(path)
        os.close(os.open(path, os.O_RDONLY))

    return Host(
        root=root,
        environ=description.get("environ", {}),
        system=description.get("system", "Linux"),
        python="3.12.3",
        architecture=description.get("architecture", "x86_64"),
        run=run,
        open_device=open_device,
        group_of=lambda path: description.get("group", 0) if path.exists() else None,
        version_of=description["packages"].get,
    )
