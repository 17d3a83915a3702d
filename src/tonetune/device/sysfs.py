"""What the kernel's own files say of a machine, with no library: cards, who may use them, container, memory."""

import dataclasses
import re
from collections.abc import Iterable

from tonetune.device.cards import Card, identified, integrated
from tonetune.device.host import Host

KFD = "sys/class/kfd/kfd/topology/nodes"
AMD = 0x1002
VENDORS = {AMD: "amd", 0x10DE: "nvidia"}
CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman", ".singularity.d": "singularity"}
CONTAINER_VARIABLES = {
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "APPTAINER_NAME": "singularity",
    "SINGULARITY_NAME": "singularity",
    "container": "container",
}
CONTAINER_GROUPS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}


def number(text: str | None) -> int | None:
    """A decimal or 0x number of a kernel file, None where it is none."""
    return int(text, 0) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19}", text) else None


def arch_of(gfx_target_version: int) -> str:
    """ "gfx90a" of 90010: two decimal digits each of minor and step, which the name writes in hex."""
    major, minor, step = gfx_target_version // 10000, gfx_target_version // 100 % 100, gfx_target_version % 100
    return f"gfx{major}{minor:x}{step:x}"


def pci_address(text: str | None) -> str | None:
    """ "0000:05:00" of an address in any spelling, without the function: the dies of a card differ in the bus."""
    parts = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(\.[0-9a-f])?", (text or "").strip().lower())
    return f"{int(parts[1] or '0', 16):04x}:{parts[2]}:{parts[3]}" if parts else None


def kfd_cards(host: Host) -> list[Card]:
    """AMD GPUs as the compute driver lists them, in the order in which ROCm counts them."""
    return [_kfd_card(host, node, facts) for node, facts in _kfd_gpus(host).items()]


def _kfd_gpus(host: Host) -> dict[str, dict[str, int]]:
    """Properties of the nodes that are AMD GPUs; a processor has no SIMD units or no version."""
    nodes = {node: _properties(host.text(f"{KFD}/{node}/properties")) for node in host.entries(KFD)}
    signs = ("gfx_target_version", "simd_count")
    return {n: f for n, f in nodes.items() if all(f.get(sign) for sign in signs) and f.get("vendor_id") == AMD}


def _kfd_card(host: Host, node: str, facts: dict[str, int]) -> Card:
    arch, place = arch_of(facts["gfx_target_version"]), facts.get("location_id")
    shared = integrated(arch)
    if shared is None:
        shared = facts.get("cpu_cores_count", 0) > 0
    banks = host.entries(f"{KFD}/{node}/mem_banks")
    sizes = [_properties(host.text(f"{KFD}/{node}/mem_banks/{bank}/properties")) for bank in banks]
    return Card(
        "amd",
        arch=arch,
        memory_mib=None if shared else _mib(size.get("size_in_bytes") for size in sizes),
        pci=None if place is None else f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}",
        pci_id=facts.get("device_id"),
        integrated=shared,
        access=_access(host, _amd_files(facts)),
    )


def _properties(text: str | None) -> dict[str, int]:
    """Lines of "key number"; what is no such line is left out."""
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and re.fullmatch(r"[0-9]{1,20}", pair[1])}


def _mib(sizes: Iterable[int | None]) -> float | None:
    """Sum of bytes in MiB, None where there are none."""
    return sum(size for size in sizes if size) / 2**20 or None


def _amd_files(facts: dict[str, int]) -> list[str]:
    """The device files that computing on a card takes: the compute driver's, and the card's render node."""
    minor = facts.get("drm_render_minor")
    return ["dev/kfd", *([f"dev/dri/renderD{minor}"] if minor else [])]


def _access(host: Host, files: Iterable[str]) -> str:
    """The worst of what holds for some device files."""
    return max((host.access(file) for file in files), key=["open", "denied", "absent"].index)


def refused_file(host: Host) -> str | None:
    """The first device file of AMD's driver that this process may not use."""
    files = dict.fromkeys(file for facts in _kfd_gpus(host).values() for file in _amd_files(facts))
    return next((file for file in files if host.access(file) != "open"), None)


def drm_cards(host: Host) -> list[Card]:
    """AMD GPUs as the display driver lists them; graphics in a processor with the memory it shares."""
    cards = []
    for entry in host.entries("sys/class/drm"):
        device = f"sys/class/drm/{entry}/device"
        if not re.fullmatch(r"card\d+", entry) or number(host.text(f"{device}/vendor")) != AMD:
            continue
        slot = re.search(r"^PCI_SLOT_NAME=(\S+)$", host.text(f"{device}/uevent") or "", re.MULTILINE)
        pci = pci_address(slot[1] if slot else None)
        card = identified(Card("amd", pci=pci, pci_id=number(host.text(f"{device}/device"))))
        kinds = ("vram", "gtt") if card.integrated else ("vram",)
        memory = _mib(number(host.text(f"{device}/mem_info_{kind}_total")) for kind in kinds)
        cards.append(dataclasses.replace(card, memory_mib=memory, name=host.text(f"{device}/product_name") or None))
    return cards


def pci_cards(host: Host) -> list[Card]:
    """Cards on the bus, whether or not a driver has taken them: display controllers and processing accelerators."""
    cards = []
    for slot in host.entries("sys/bus/pci/devices"):
        vendor, device, kind = (
            number(host.text(f"sys/bus/pci/devices/{slot}/{name}")) for name in ("vendor", "device", "class")
        )
        if vendor in VENDORS and kind is not None and kind >> 16 in (0x03, 0x12):
            cards.append(Card(VENDORS[vendor], pci=pci_address(slot), pci_id=device))
    return cards


def nvidia_cards(host: Host) -> list[Card]:
    """NVIDIA GPUs as the driver's files list them."""
    cards = []
    for slot in host.entries("proc/driver/nvidia/gpus"):
        lines = (host.text(f"proc/driver/nvidia/gpus/{slot}/information") or "").splitlines()
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        minor = number(facts.get("Device Minor"))
        files = ["dev/nvidiactl", *([] if minor is None else [f"dev/nvidia{minor}"])]
        name, pci = facts.get("Model") or None, pci_address(slot)
        cards.append(Card("nvidia", name=name, pci=pci, integrated=False, access=_access(host, files)))
    return cards


def nvidia_driver(host: Host) -> str | None:
    """Version of NVIDIA's driver, such as "580.95.05"."""
    found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", host.text("proc/driver/nvidia/version") or "")
    return found[1] if found else None


def amd_driver(host: Host) -> str | None:
    """Version of AMD's driver, which the one that comes with the kernel does not have."""
    return host.text("sys/module/amdgpu/version") or None


def rocm_version(host: Host) -> str | None:
    """Version of an installed ROCm; torch brings its own."""
    return host.text("opt/rocm/.info/version") or None


def container(host: Host) -> str | None:
    """The kind of container this process runs in, None where there is no sign of one."""
    if host.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    for file, kind in CONTAINER_FILES.items():
        if (host.root / file).exists():
            return kind
    for variable, kind in CONTAINER_VARIABLES.items():
        if host.environ.get(variable):
            return kind
    groups = host.text("proc/1/cgroup") or ""
    return next((kind for sign, kind in CONTAINER_GROUPS.items() if sign in groups), None)


def shared_memory_mib(host: Host) -> float | None:
    """Size of /dev/shm, as it was mounted; half of the memory where the mount does not say."""
    mounts = [line.split() for line in (host.text("proc/mounts") or "").splitlines()]
    options = [fields[3] for fields in mounts if len(fields) > 3 and fields[1] == "/dev/shm"]
    if not options:
        return None
    size = re.search(r"(?:^|,)size=(\d{1,18})([kmg]?)", options[-1])
    if size:
        return int(size[1]) * {"": 2**-20, "k": 2**-10, "m": 1.0, "g": 1024.0}[size[2]]
    memory = memory_mib(host)
    return None if memory is None else memory / 2


def memory_mib(host: Host) -> float | None:
    """Memory of the machine, or what a control group leaves of it."""
    total = re.search(r"^MemTotal:\s+(\d{1,18}) kB", host.text("proc/meminfo") or "", re.MULTILINE)
    limits = [number(host.text(f"sys/fs/cgroup/{name}")) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    sizes = [*([int(total[1]) / 1024] if total else []), *(limit / 2**20 for limit in limits if limit)]
    return min(sizes) if sizes else None


def processor(host: Host) -> str | None:
    """The name a processor gives itself."""
    found = re.search(r"^model name\s*:\s*(.+)$", host.text("proc/cpuinfo") or "", re.MULTILINE)
    return found[1].strip() if found else None
