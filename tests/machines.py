"""Machines described in tests/fixtures/machines: a tree of files, outputs of programs, and what the doctor must say.

Run as a program it prints the description of the machine that it runs on, to be read and then kept as a new one:
`PYTHONPATH=src python tests/machines.py "an MI210 with ROCm 6.4" > tests/fixtures/machines/NAME.yaml`
"""

import copy
import dataclasses
import functools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tonetune.device.doctor import diagnose
from tonetune.device.host import Ended, Host, device_variables
from tonetune.device.redact import host_names, private_values, redacted, user_names
from tonetune.device.sysfs import CONTAINER_FILES, VENDORS

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


PCI = "sys/bus/pci/devices/"
LINES = {
    "proc/cpuinfo": r"(?m)^model name.*$",
    "proc/meminfo": r"(?m)^MemTotal:.*$",
    "proc/mounts": r"(?m)^\S+ /dev/shm .*$",
    "proc/driver/nvidia/version": r"(?m)^NVRM.*$",
    "proc/1/cgroup": r"kubepods|docker|libpod|lxc",
    "information": r"(?m)^(?:Model|Bus Location|Device Minor):.*$",
}
"""Of these files the lines that tell of the machine, and of nobody else."""


class Recorder(Host):
    """A machine that keeps what is looked at, as a description has it."""

    def text(self, path: str) -> str | None:
        text = super().text(path)
        if text is not None:
            wanted = next((lines for end, lines in LINES.items() if path.endswith(end)), None)
            kept = "\n".join(dict.fromkeys(re.findall(wanted, text))) if wanted else text
            self.__dict__.setdefault("files", {})[path] = kept
        return text

    def access(self, path: str) -> str:
        found = super().access(path)
        if found != "absent":
            self.__dict__.setdefault("files", {})[path] = ""
        if found == "denied":
            self.__dict__.setdefault("denied", {})[path] = True
        return found


def record(about: str, host: Host) -> dict[str, Any]:
    """The description of a machine: what the doctor reads of it, and what it then says, without names and places."""
    said: dict[str, Ended] = {}
    groups: list[int] = []

    def run(command: Sequence[str], limit_s: float) -> Ended:
        ended = host.run(command, limit_s)
        said["torch" if "torch_build" in command[-1] else " ".join(command)] = ended
        return ended

    def group_of(path: Path) -> int | None:
        group = host.group_of(path)
        groups.extend([] if group is None else [group])
        return group

    fields = {field.name: getattr(host, field.name) for field in dataclasses.fields(Host)}
    recorder = Recorder(**{**fields, "run": run, "group_of": group_of})
    diagnosis = diagnose("none", recorder)
    files = vars(recorder).get("files", {})
    files |= {file: "" for file in CONTAINER_FILES if (host.root / file).exists()}
    cards = {path.rpartition("/")[0] for path, text in files.items() if text in map(hex, VENDORS)}
    files = {path: text for path, text in files.items() if PCI not in path or path.rpartition("/")[0] in cards}
    document, torch = diagnosis.as_dict(), said.pop("torch")
    packages = {name: version for name, version in diagnosis.machine.packages.items() if version}
    advice = [{key: value for key, value in row.items() if value is not None} for row in document["advice"]]
    description = {
        "recorded": True,
        "about": about,
        "system": host.system,
        "architecture": host.architecture,
        "environ": device_variables(host.environ),
        "group": groups[0] if groups else 0,
        "denied": [*vars(recorder).get("denied", {})],
        "files": dict(sorted(files.items())),
        "commands": {command: ended.out for command, ended in said.items() if ended.code == 0},
        "packages": packages,
        "torch": {name: value for name, value in vars(torch).items() if name in ("out", "err", "code")},
        "expect": {
            "verdict": document["verdict"],
            "summary": document["summary"],
            "devices": [
                {key: device[key] for key in ("name", "arch", "memory_gib", "kind", "torch")}
                for device in document["devices"]
            ],
            "torch": {key: document["torch"][key] for key in ("status", "version", "backend", "fits")},
            "advice": advice,
        },
    }
    hidden = {"users": user_names(), "hosts": host_names(), "values": private_values(diagnosis.machine.variables)}
    by_path = {name: description[name] for name in ("files", "denied")}
    commands = {command: redacted(out, **hidden) for command, out in description["commands"].items()}
    return {**redacted(description, **hidden), **by_path, "commands": commands}


if __name__ == "__main__":
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(record(" ".join(sys.argv[1:]) or "this machine", Host.this()), sys.stdout)
