"""What the vendors' tools say of the cards: amd-smi, else rocm-smi, and nvidia-smi. Whatever they print, no error."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from tonetune.device.cards import Card, telling
from tonetune.device.host import Host
from tonetune.device.sysfs import number, pci_address

LIMIT_S = 15.0
DOCUMENTS_TRIED = 20
AMD_SMI = ("amd-smi", "static", "--asic", "--vram", "--board", "--bus", "--json")
AMD_SMI_LIST = ("amd-smi", "list", "--json")
ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showbus", "--json")
NVIDIA_SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,compute_cap,pci.bus_id,driver_version",
    "--format=csv,noheader,nounits",
)
MIB_OF = {"b": 2**-20, "kb": 2**-10, "mb": 1.0, "gb": 2.0**10, "tb": 2.0**20}


def amd_cards(host: Host) -> list[Card]:
    """The AMD cards that amd-smi lists, or where it says nothing rocm-smi."""
    cards = amd_smi_cards(host.run(AMD_SMI, LIMIT_S).out, host.run(AMD_SMI_LIST, LIMIT_S).out)
    return cards or rocm_smi_cards(host.run(ROCM_SMI, LIMIT_S).out)


def nvidia_cards(host: Host) -> tuple[list[Card], str | None]:
    """The cards that nvidia-smi lists, and the version of the driver."""
    return nvidia_smi_cards(host.run(NVIDIA_SMI, LIMIT_S).out)


def amd_smi_cards(static: str, listed: str = "") -> list[Card]:
    """Cards of `amd-smi static --json`, their addresses from `amd-smi list --json` where it has none."""
    addresses = {str(item.get("gpu")): item.get("bdf") for item in _items(listed)}
    return [
        Card(
            "amd",
            name=_name(_at(item, "board", "product_name")) or _name(_at(item, "asic", "market_name")),
            arch=_arch(_at(item, "asic", "target_graphics_version")),
            memory_mib=_mib(_at(item, "vram", "size") or _at(item, "vram", "vram_size"), unit="mb"),
            pci=_pci(_at(item, "bus", "bdf")) or _pci(addresses.get(str(item.get("gpu")))),
            pci_id=number(_text(_at(item, "asic", "device_id"))),
        )
        for item in _items(static)
        if any(part in item for part in ("asic", "vram", "board"))
    ]


def rocm_smi_cards(text: str) -> list[Card]:
    """Cards of `rocm-smi --json`, whose keys are spelled differently from version to version."""
    document = _json(text)
    entries = document.items() if isinstance(document, dict) else ()
    numbered = sorted((int(key[4:]), value) for key, value in entries if re.fullmatch(r"card[0-9]{1,9}", key))
    cards = []
    for _, item in numbered:
        facts = {key.lower(): value for key, value in item.items()} if isinstance(item, dict) else {}
        model = _text(facts.get("card model"))
        cards.append(
            Card(
                "amd",
                name=_name(facts.get("card series")) or _name(model),
                arch=_arch(facts.get("gfx version")),
                memory_mib=_mib(facts.get("vram total memory (b)"), unit="b"),
                pci=_pci(facts.get("pci bus")),
                pci_id=number(model),
            )
        )
    return cards


def nvidia_smi_cards(text: str) -> tuple[list[Card], str | None]:
    """Cards of nvidia-smi's five columns, and the version of the driver."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 5 and _pci(row[3])]
    cards = [
        Card(
            "nvidia",
            name=_name(name),
            arch=f"sm_{capability.replace('.', '')}" if re.fullmatch(r"\d+\.\d", capability) else None,
            memory_mib=_mib(memory, unit="mb"),
            pci=_pci(pci),
            integrated=False,
        )
        for name, memory, capability, pci, _ in rows
    ]
    return cards, next((row[4] for row in rows if re.fullmatch(r"\d+(\.\d+)*", row[4])), None)


def _items(text: str) -> Iterator[dict[str, Any]]:
    """The cards of an amd-smi document: a list, or one below "gpu_data"."""
    document = _json(text)
    if isinstance(document, dict):
        document = document.get("gpu_data")
    yield from (item for item in document if isinstance(item, dict)) if isinstance(document, list) else ()


def _json(text: str) -> Any:
    """The JSON document in a tool's output, behind whatever it printed before; None where there is none."""
    decoder = json.JSONDecoder()
    for start in itertools.islice(re.finditer(r"^[ \t]*[\[{]", text, re.MULTILINE), DOCUMENTS_TRIED):
        try:
            return decoder.raw_decode(text, start.end() - 1)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _at(item: object, *path: str) -> object:
    """What lies below some keys, None where a part of the way is absent."""
    for key in path:
        if not isinstance(item, dict):
            return None
        item = item.get(key)
    return item


def _text(value: object) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _name(value: object) -> str | None:
    return telling(_text(value))


def _arch(value: object) -> str | None:
    text = (_text(value) or "").lower().split(":")[0]
    return text if re.fullmatch(r"gfx[0-9a-f]{3,5}", text) else None


def _pci(value: object) -> str | None:
    return pci_address(_text(value))


def _mib(value: object, *, unit: str) -> float | None:
    """MiB of {"value": 65520, "unit": "MB"}, "65520 MB" or 65520, which is in `unit`; None where there is no size."""
    if isinstance(value, dict):
        unit, value = str(value.get("unit", unit)), value.get("value")
    spelled = str(value) if isinstance(value, (str, int, float)) else ""
    found = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]+)?)\s*([a-z]*)\s*", spelled, re.IGNORECASE)
    if not found:
        return None
    size = float(found[1]) * MIB_OF.get((found[2] or unit).lower().replace("ib", "b"), math.nan)
    return size if size > 0 else None
