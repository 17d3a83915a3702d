"""A card as several sources see it, and how what they say is put together."""

import csv
import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = {"amd": "rocm", "nvidia": "cuda", "apple": "mps", "cpu": "cpu"}
NO_NAME = r"(?i)0x[0-9a-f]+|n/?a|none|unknown|(amd|ati)? ?(radeon )?(graphics|gpu)?|.*\[amd/ati\]"


@dataclass(frozen=True)
class Card:
    """One device that can compute, as far as it is known; a card of two dies (MI250X) is two.

    `arch` is "gfx90a" or "sm_90"; `pci` the address without its function, `pci_id` the device number; `access` is
    "open", "denied" or "absent"; `torch` the name under which torch sees it.
    """

    vendor: str
    name: str | None = None
    arch: str | None = None
    memory_mib: float | None = None
    pci: str | None = None
    pci_id: int | None = None
    integrated: bool | None = None
    access: str | None = None
    torch: str | None = None

    @property
    def usable(self) -> bool:
        """Whether this process may open it, as far as that is known."""
        return self.access in (None, "open")

    @property
    def kind(self) -> str:
        """The backend of torch that computes on it."""
        return KINDS[self.vendor]

    @property
    def label(self) -> str:
        """What to call it: its name, else its vendor and device number."""
        number = "" if self.pci_id is None else f" {self.pci_id:04x}"
        return self.name or f"{self.vendor.upper()} card{number}"

    def as_dict(self) -> dict[str, object]:
        """The card as the command line prints it."""
        return {
            "name": self.label,
            "arch": self.arch,
            "memory_gib": None if self.memory_mib is None else round(self.memory_mib / 1024, 1),
            "kind": self.kind,
            "integrated": self.integrated,
            "access": self.access,
            "torch": self.torch,
        }


def telling(name: str | None) -> str | None:
    """A card's name; None for a number, and for what any card of the vendor is called."""
    return None if re.fullmatch(NO_NAME, name or "") else name


def merge(known: Sequence[Card], found: Sequence[Card]) -> list[Card]:
    """The known cards, their gaps filled by what another source found, and behind them the cards that only it found.

    Two entries are one card where their PCI addresses agree. Without an address it is the first card of the vendor
    that is not taken yet, of the same architecture where one is.
    """
    cards, taken = list(known), set[int]()
    for other in found:
        free = [i for i, card in enumerate(cards) if i not in taken and card.vendor == other.vendor]
        same = [i for i in free if other.pci is not None and cards[i].pci == other.pci]
        loose = [i for i in free if other.pci is None or cards[i].pci is None]
        alike = [i for i in loose if cards[i].arch == other.arch]
        match = next(iter([*same, *alike, *loose]), None)
        if match is None:
            cards.append(other)
            taken.add(len(cards) - 1)
        else:
            cards[match] = _filled(cards[match], other)
            taken.add(match)
    return cards


def _filled(card: Card, other: Card) -> Card:
    gaps = [field.name for field in dataclasses.fields(card) if getattr(card, field.name) is None]
    return dataclasses.replace(card, **{name: getattr(other, name) for name in gaps})


def identified(card: Card) -> Card:
    """The card with what cards.tsv says of its device number, where nothing else said so."""
    rows = [row for row in _table() if card.vendor == "amd" and card.pci_id == int(row["pci_id"], 16)]
    found = [Card("amd", f"AMD {row['name']}", row["arch"], integrated=row["integrated"] == "yes") for row in rows]
    return _filled(card, found[0]) if found else card


def integrated(arch: str | None) -> bool | None:
    """Whether graphics of an architecture are part of a processor and share its memory, None where that is unknown."""
    return next((row["integrated"] == "yes" for row in _table() if row["arch"] == arch), None)


@functools.cache
def _table() -> list[dict[str, str]]:
    with (importlib.resources.files(__package__) / "cards.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))
