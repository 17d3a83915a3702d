"""A machine as a flat dictionary, from which the rules of advice.yaml are judged: "torch.version", "env.HSA_…"."""

import re
from collections.abc import Mapping, Sequence

from tonetune.device.cards import Card
from tonetune.device.machine import Machine
from tonetune.device.sysfs import arch_of
from tonetune.device.wheels import archs_of, driver_for, needed_wheel, runs_on, target_cards, version

Fact = str | int | float | bool | list[str] | None

VISIBILITY = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
NEEDED = ("transformers", "peft", "tokenizers", "safetensors", "numpy")
ACCESS = ("open", "denied", "absent")  # the best first


def facts_of(machine: Machine, probes: Mapping[str, str] | None = None) -> dict[str, Fact]:
    """Every fact the rules may name; None is what is not known or not there. `probes` has statuses by id."""
    return {
        "system": machine.system,
        "container": machine.container,
        "shared_memory_mib": machine.shared_memory_mib,
        "device.name": machine.device.label,
        **_card_facts(machine),
        **_torch_facts(machine),
        **_variable_facts(machine),
        **{f"driver.{name}": version for name, version in machine.drivers.items()},
        **{f"packages.{name}": version for name, version in machine.packages.items()},
        "packages.missing": [name for name in NEEDED if machine.packages[name] is None] or None,
        **_probe_facts(probes or {}),
    }


def _card_facts(machine: Machine) -> dict[str, Fact]:
    amd = [card for card in machine.cards if card.vendor == "amd"]
    nvidia = [card for card in machine.cards if card.vendor == "nvidia"]
    seen = sorted(
        (card for card in machine.cards if card.torch), key=lambda card: int(str(card.torch).partition(":")[2] or 0)
    )
    discrete = [i for i, card in enumerate(seen) if not card.integrated]
    return {
        "cards.count": len(machine.cards),
        "cards.open": sum(card.access == "open" for card in machine.cards),
        "cards.seen": len(seen),
        "cards.first_is_integrated": bool(seen and seen[0].integrated and discrete),
        "cards.first_discrete": discrete[0] if discrete else None,
        "amd.count": len(amd),
        "amd.names": _names(amd),
        "amd.archs": _archs(amd),
        "amd.access": _best_access(amd),
        "amd.kfd": machine.kfd,
        "amd.refused": f"/{machine.refused}" if machine.refused else None,
        "amd.refused_group": machine.refused_group,
        "nvidia.count": len(nvidia),
        "nvidia.names": _names(nvidia),
        "nvidia.archs": _archs(nvidia),
        "nvidia.access": _best_access(nvidia),
        "apple.count": sum(card.vendor == "apple" for card in machine.cards),
    }


def _torch_facts(machine: Machine) -> dict[str, Fact]:
    torch = machine.torch
    usable = [card for card in machine.cards if card.usable]
    targets = target_cards(usable or machine.cards, torch.backend)
    wheel = needed_wheel(targets, driver=machine.drivers["nvidia"], system=machine.system)
    needed, installed = driver_for(torch.cuda), machine.drivers["nvidia"]
    archs = torch.archs or archs_of(torch.version)
    wanted = _archs(targets) or []
    lacking = [arch for arch in wanted if archs and not runs_on(arch, archs)]
    backend = targets[0].kind if targets else None
    fits = torch.backend == backend and not lacking if targets and torch.version else None
    return {
        "torch.status": torch.status,
        "torch.version": torch.version,
        "torch.backend": torch.backend,
        "torch.hip": torch.hip,
        "torch.cuda": torch.cuda,
        "torch.archs": list(archs) or None,
        "torch.kernel": torch.kernels[0] if torch.kernels else None,
        "torch.kernels_behind": [status for status in torch.kernels[1:] if status != "works"] or None,
        "torch.error": torch.error,
        "driver.needed": needed,
        "driver.too_old": bool(needed and installed and version(installed) < version(needed)),
        "wheel.targets": _names(targets),
        "wheel.backend": backend,
        "wheel.archs": wanted or None,
        "wheel.lacking": lacking if torch.backend == backend and lacking else None,
        "wheel.fits": fits,
        "wheel.machine": wheel.machine if wheel else None,
        "wheel.command": wheel.command(replace=machine.packages["torch"] is not None) if wheel else None,
    }


def _variable_facts(machine: Machine) -> dict[str, Fact]:
    variables = machine.variables
    selecting = [name for name in VISIBILITY if name in variables]
    return {
        **{f"env.{name}": value for name, value in variables.items()},
        "visibility.names": [f"{name}={variables[name]}" for name in selecting] or None,
        "visibility.count": len(selecting),
        "visibility.hide": f"export {'HIP' if machine.torch.hip else 'CUDA'}_VISIBLE_DEVICES=-1",
        "allocator.expandable_segments": any(
            "expandable_segments:true" in variables.get(name, "").lower().replace(" ", "") for name in ALLOCATOR
        ),
        "override.arch": _override(variables.get("HSA_OVERRIDE_GFX_VERSION")),
    }


def _probe_facts(probes: Mapping[str, str]) -> dict[str, Fact]:
    wrong = [name for name, status in probes.items() if status not in ("passed", "skipped")]
    return {**{f"probe.{name}": status for name, status in probes.items()}, "probe.wrong": wrong or None}


def _override(value: str | None) -> str | None:
    """The architecture that HSA_OVERRIDE_GFX_VERSION pretends, such as "gfx1030" for "10.3.0"."""
    found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})", value or "")
    return arch_of(int(found[1]) * 10000 + int(found[2]) * 100 + int(found[3])) if found else None


def _names(cards: Sequence[Card]) -> str | None:
    """ "2 × AMD Instinct MI250X, NVIDIA H200"."""
    names = [card.label for card in cards]
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items()) or None


def _archs(cards: Sequence[Card]) -> list[str] | None:
    return sorted({card.arch for card in cards if card.arch}) or None


def _best_access(cards: Sequence[Card]) -> str | None:
    """Whether at least one of the cards may be used, else why not."""
    return min((card.access for card in cards if card.access), key=ACCESS.index, default=None)
