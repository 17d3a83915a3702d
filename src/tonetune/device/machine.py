"""This machine: its cards put together from every source, its drivers, container and memory, and its torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tonetune.device import smi, sysfs
from tonetune.device.cards import Card, identified, merge
from tonetune.device.host import Host, device_variables
from tonetune.device.torch_build import TorchBuild, torch_build

PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "tokenizers",
    "safetensors",
    "accelerate",
    "bitsandbytes",
    "triton",
    "numpy",
)
MAC_NAME = ("sysctl", "-n", "machdep.cpu.brand_string")
MAC_MEMORY = ("sysctl", "-n", "hw.memsize")
MAC_LIMIT_S = 5.0


@dataclass(frozen=True)
class Machine:
    """Everything that was found; `refused` is the device file of AMD's driver that may not be used, and its group."""

    system: str
    python: str
    processor: Card
    cards: tuple[Card, ...]
    torch: TorchBuild
    kfd: bool
    refused: str | None
    refused_group: int | None
    drivers: Mapping[str, str | None]
    container: str | None
    shared_memory_mib: float | None
    packages: Mapping[str, str | None]
    variables: Mapping[str, str]

    @property
    def device(self) -> Card:
        """What training computes on: the first card of torch, else the processor."""
        return next((card for card in self.cards if card.torch == "cuda:0"), self.processor)


def examine(host: Host, build: TorchBuild | None = None) -> Machine:
    """Look at a machine. Where sources differ, the kernel is believed before torch, and torch before the tools.

    `build` is its torch where that is known already.
    """
    build = build or torch_build(host)
    reported, driver = smi.nvidia_cards(host)
    processor = _processor(host)
    cards: list[Card] = []
    sources = (
        sysfs.kfd_cards(host),
        sysfs.nvidia_cards(host),
        build.cards,
        smi.amd_cards(host),
        reported,
        sysfs.drm_cards(host),
        sysfs.pci_cards(host),
    )
    for source in sources:
        cards = merge(cards, source)
    if host.system == "Darwin" and host.architecture == "arm64":
        seen = "mps" if build.mps else None
        cards.append(replace(processor, vendor="apple", arch="apple", integrated=True, torch=seen))
    refused = sysfs.refused_file(host)
    return Machine(
        system=host.system,
        python=host.python,
        processor=processor,
        cards=tuple(identified(card) for card in cards),
        torch=build,
        kfd=bool(host.entries(sysfs.KFD)),
        refused=refused,
        refused_group=host.group_of(host.root / refused) if refused else None,
        drivers={
            "nvidia": sysfs.nvidia_driver(host) or driver,
            "amdgpu": sysfs.amd_driver(host),
            "rocm": sysfs.rocm_version(host),
        },
        container=sysfs.container(host),
        shared_memory_mib=sysfs.shared_memory_mib(host),
        packages={package: host.version_of(package) for package in PACKAGES},
        variables=device_variables(host.environ),
    )


def _processor(host: Host) -> Card:
    """The processor with the memory of the machine, by the kernel's files on Linux and by sysctl on a Mac."""
    name, memory_mib = sysfs.processor(host), sysfs.memory_mib(host)
    if host.system == "Darwin":
        name = host.run(MAC_NAME, MAC_LIMIT_S).out.strip() or None
        size = sysfs.number(host.run(MAC_MEMORY, MAC_LIMIT_S).out.strip())
        memory_mib = size / 2**20 if size else None
    return Card("cpu", name or host.architecture, host.architecture, memory_mib, torch="cpu")
