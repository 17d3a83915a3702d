"""Which torch build a machine needs, from the one table of builds: wheels.tsv."""

import csv
import functools
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tonetune.device.cards import Card

BACKENDS = {"rocm": "rocm", "cu": "cuda", "cpu": "cpu"}


@dataclass(frozen=True)
class Wheel:
    """A row of the table: builds of one index, the torch versions there, the architectures they have kernels for.

    `driver` is the oldest NVIDIA driver, as a version, or empty.
    """

    machine: str
    torch: str
    index_url: str
    status: str
    archs: tuple[str, ...]
    driver: str
    note: str

    @property
    def suffix(self) -> str:
        """The index's own name, such as "rocm6.4": what follows the + in the versions of its builds."""
        return self.index_url.rpartition("/")[2]

    @property
    def backend(self) -> str | None:
        """ "rocm", "cuda" or "cpu"; None for pip's own index, whose build depends on the system."""
        return next((name for sign, name in BACKENDS.items() if re.fullmatch(rf"{sign}[0-9.]*", self.suffix)), None)

    def command(self, *, replace: bool = False) -> str:
        """The line that installs it, in place of a torch that is there where `replace`."""
        words = ["pip install", *(["--force-reinstall"] if replace else []), f'"torch{self.torch}"']
        return " ".join([*words, *([f"--index-url {self.index_url}"] if self.index_url else [])])


@functools.cache
def wheels() -> tuple[Wheel, ...]:
    """The table, oldest builds of a backend first."""
    with (importlib.resources.files(__package__) / "wheels.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return tuple(Wheel(archs=tuple(row.pop("archs").split()), **row) for row in rows)


def runs_on(arch: str, archs: Sequence[str]) -> bool:
    """Whether a build with kernels for `archs` runs on a card of `arch`.

    AMD's must be named; NVIDIA's run on later minor versions of the same major one.
    """
    if not (card := re.fullmatch(r"sm_(\d+)(\d)", arch)):
        return arch in archs
    built = (re.fullmatch(r"sm_(\d+)(\d)", name) for name in archs)
    return any(found and found[1] == card[1] and found[2] <= card[2] for found in built)


def target_cards(cards: Sequence[Card], backend: str | None) -> list[Card]:
    """The cards that training would use: those of the vendor that the installed build is for, else AMD's, NVIDIA's.

    Graphics in a processor count where there is no other card and some build has kernels for them.
    """
    built = {arch for wheel in wheels() for arch in wheel.archs}
    groups = []
    for shared in (False, True):
        for kind in sorted(("rocm", "cuda"), key=lambda kind: kind != backend):
            group = [card for card in cards if card.kind == kind and bool(card.integrated) == shared]
            groups.append([card for card in group if not shared or card.arch in built])
    return next((group for group in groups if group), [])


def needed_wheel(targets: Sequence[Card], *, driver: str | None, system: str) -> Wheel | None:
    """The newest build with kernels for every target card that the NVIDIA driver can run, the processor's without one.

    None where no build of the table has the kernels. A card of unknown architecture is taken to be a common one.
    """
    if not targets:
        return next(wheel for wheel in wheels() if wheel.backend == ("cpu" if system == "Linux" else None))
    backend, archs = targets[0].kind, {card.arch for card in targets if card.arch}
    fitting = [
        wheel
        for wheel in wheels()
        if wheel.backend == backend
        and all(runs_on(arch, wheel.archs) for arch in archs)
        and (not wheel.driver or driver is None or version(driver) >= version(wheel.driver))
    ]
    return fitting[-1] if fitting else None


def driver_for(cuda: str | None) -> str | None:
    """The oldest NVIDIA driver that runs builds for a CUDA version, None where the table does not say."""
    major = f"cu{(cuda or '').partition('.')[0]}"
    return next((wheel.driver for wheel in wheels() if cuda and wheel.driver and wheel.suffix.startswith(major)), None)


def archs_of(torch_version: str | None) -> tuple[str, ...]:
    """Architectures of an installed build by the suffix of its version; none where the table does not know it."""
    suffix = (torch_version or "").partition("+")[2]
    return next((wheel.archs for wheel in wheels() if suffix and wheel.suffix == suffix), ())


def version(text: str) -> Version:
    """The numbers at the beginning of a version, 6.4.43484 of "6.4.43484-123abc"; 0 where there are none."""
    found = re.match(r"\d+(\.\d+)*", text)
    return Version(found[0] if found else "0")


def in_range(text: str, versions: str) -> bool:
    """Whether a version is one of a specifier such as ">=2.13,<2.14"."""
    return SpecifierSet(versions).contains(version(text))
