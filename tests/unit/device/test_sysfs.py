"""The kernel's files: cards, access, container, memory, whatever stands in the files."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from machines import host_of

from tonetune.device import sysfs
from tonetune.device.host import Host

KFD = "sys/class/kfd/kfd/topology/nodes"
GPU = {"simd_count": 416, "gfx_target_version": 90010, "vendor_id": 4098, "device_id": 0x740F, "location_id": 0x8300}


def lines(facts: dict[str, int]) -> str:
    return "".join(f"{key} {value}\n" for key, value in facts.items())


@pytest.fixture
def host(tmp_path):
    """Makes a machine of files."""

    def make(files: dict[str, str], **description: Any) -> Host:
        return host_of({"files": files, "packages": {}, **description}, tmp_path)

    return make


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90006, "gfx906"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100300, "gfx1030"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
    ],
)
def test_a_version_number_is_an_architecture(version, arch):
    assert sysfs.arch_of(version) == arch


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:05:00.0", "0000:05:00"),
        ("00000000:C1:00.0", "0000:c1:00"),
        ("05:00.1", "0000:05:00"),
        ("0001:05:1f", "0001:05:1f"),
        (" 0000:05:00.0\n", "0000:05:00"),
        ("N/A", None),
        ("", None),
        (None, None),
        ("05:00.0:7", None),
    ],
)
def test_an_address_is_read_in_any_spelling(text, address):
    assert sysfs.pci_address(text) == address


def test_nodes_that_are_no_amd_gpus_are_passed_over(host):
    nodes = [
        {"simd_count": 0, "gfx_target_version": 0, "vendor_id": 0},
        {**GPU, "vendor_id": 4318},
        {**GPU, "simd_count": 0},
        {**GPU, "gfx_target_version": 0},
        GPU,
    ]
    files = {f"{KFD}/{i}/properties": lines(node) for i, node in enumerate(nodes)}
    (card,) = sysfs.kfd_cards(host(files))
    assert (card.arch, card.pci, card.pci_id, card.integrated) == ("gfx90a", "0000:83:00", 0x740F, False)


def test_memory_is_the_sum_of_a_node_s_banks(host):
    files = {f"{KFD}/1/properties": lines(GPU)}
    files |= {f"{KFD}/1/mem_banks/{i}/properties": f"heap_type {i}\nsize_in_bytes {3 << 30}\n" for i in (1, 2)}
    assert [card.memory_mib for card in sysfs.kfd_cards(host(files))] == [6144]


def test_partitions_of_a_card_share_its_address_and_each_is_a_device(host):
    files = {f"{KFD}/{i}/properties": lines({**GPU, "location_id": 0x8300 | i}) for i in range(1, 5)}
    assert [card.pci for card in sysfs.kfd_cards(host(files))] == ["0000:83:00"] * 4


def test_graphics_in_a_processor_are_told_by_architecture_or_by_the_cores_beside_them(host):
    nodes = [GPU, {**GPU, "gfx_target_version": 110501}, {**GPU, "gfx_target_version": 90002, "cpu_cores_count": 8}]
    files = {f"{KFD}/{i}/properties": lines(node) for i, node in enumerate(nodes)}
    assert [card.integrated for card in sysfs.kfd_cards(host(files))] == [False, True, True]


@pytest.mark.parametrize(
    ("present", "denied", "access", "refused"),
    [
        (["dev/kfd", "dev/dri/renderD128"], [], "open", None),
        (["dev/kfd", "dev/dri/renderD128"], ["dev/kfd"], "denied", "dev/kfd"),
        (["dev/kfd", "dev/dri/renderD128"], ["dev/dri/renderD128"], "denied", "dev/dri/renderD128"),
        (["dev/kfd"], [], "absent", "dev/dri/renderD128"),
        (["dev/kfd"], ["dev/kfd"], "absent", "dev/kfd"),
        ([], [], "absent", "dev/kfd"),
    ],
)
def test_access_is_the_worst_of_the_two_device_files(host, present, denied, access, refused):
    files = {f"{KFD}/1/properties": lines({**GPU, "drm_render_minor": 128}), **dict.fromkeys(present, "")}
    machine = host(files, denied=denied)
    assert [card.access for card in sysfs.kfd_cards(machine)] == [access]
    assert sysfs.refused_file(machine) == refused


def test_the_display_driver_counts_the_memory_that_graphics_share(host):
    shared = {"vendor": "0x1002", "device": "0x1586", "uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c4:00.0"}
    sizes = {"mem_info_vram_total": str(1 << 30), "mem_info_gtt_total": str(63 << 30)}
    alone = {**shared, "device": "0x744c", "uevent": "PCI_SLOT_NAME=0000:03:00.0"}
    entries = {"card1": shared | sizes, "card0": alone | sizes, "card0-DP-1": {}, "card2": {"vendor": "0x10de"}}
    files = {f"sys/class/drm/{n}/device/{k}": v for n, facts in entries.items() for k, v in facts.items()}
    cards = sysfs.drm_cards(host(files))
    assert [(c.pci, c.arch, c.integrated, c.memory_mib) for c in cards] == [
        ("0000:03:00", "gfx1100", False, 1024),
        ("0000:c4:00", "gfx1151", True, 65536),
    ]


def test_cards_on_the_bus_are_found_without_a_driver(host):
    slots = {
        "0000:05:00.0": ("0x1002", "0x740f", "0x038000"),
        "0000:06:00.0": ("0x1002", "0x74a1", "0x120000"),
        "0000:07:00.0": ("0x10de", "0x2335", "0x030200"),
        "0000:03:00.1": ("0x1002", "0xab30", "0x040300"),  # its loudspeaker
        "0000:00:02.0": ("0x8086", "0x4680", "0x030000"),
        "0000:08:00.0": ("what", "ever", ""),
    }
    names = ("vendor", "device", "class")
    files = {f"sys/bus/pci/devices/{s}/{n}": v for s, vs in slots.items() for n, v in zip(names, vs, strict=True)}
    found = [(card.vendor, card.pci, card.pci_id) for card in sysfs.pci_cards(host(files))]
    assert found == [
        ("amd", "0000:05:00", 0x740F),
        ("amd", "0000:06:00", 0x74A1),
        ("nvidia", "0000:07:00", 0x2335),
    ]


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({".singularity.d/x": ""}, {}, "singularity"),
        ({}, {"APPTAINER_NAME": "image.sif"}, "singularity"),
        ({}, {"container": "lxc"}, "container"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"proc/1/cgroup": "0::/kubepods/besteffort/pod1"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "12:cpu:/docker/0123"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope"}, {}, None),
    ],
)
def test_a_container_shows_itself(host, files, environ, kind):
    assert sysfs.container(host(files, environ=environ)) == kind


@pytest.mark.parametrize(
    ("mounts", "mib"),
    [
        ("shm /dev/shm tmpfs rw,nosuid,size=65536k 0 0", 64),
        ("shm /dev/shm tmpfs rw,size=67108864 0 0", 64),
        ("shm /dev/shm tmpfs rw,size=2g,mode=1777 0 0", 2048),
        ("tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0", 4096),
        ("shm /dev/shm tmpfs rw,size=64m 0 0\ntmpfs /dev/shm tmpfs rw,size=128m 0 0", 128),
        ("proc /proc proc rw 0 0\n\nbroken", None),
    ],
)
def test_shared_memory_is_what_was_mounted_or_half_of_all(host, mounts, mib):
    files = {"proc/mounts": mounts, "proc/meminfo": "MemTotal:        8388608 kB\nMemFree: 1 kB\n"}
    assert sysfs.shared_memory_mib(host(files)) == mib


@pytest.mark.parametrize(("limit", "mib"), [("max", 8192), ("4294967296", 4096), ("9223372036854771712", 8192)])
def test_memory_is_what_a_control_group_leaves(host, limit, mib):
    files = {"proc/meminfo": "MemTotal: 8388608 kB\n", "sys/fs/cgroup/memory.max": f"{limit}\n"}
    assert sysfs.memory_mib(host(files)) == mib


def test_a_driver_s_version_is_found_in_its_own_words(host):
    words = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\n"
    assert sysfs.nvidia_driver(host({"proc/driver/nvidia/version": words})) == "580.95.05"


def test_whatever_the_files_hold_is_no_error(tmp_path):
    """Every file that is read, filled with noise; and a machine without any file."""
    rng = random.Random(0)
    slot = "0000:05:00.0"
    paths = [f"{KFD}/1/properties", f"{KFD}/1/mem_banks/0/properties", f"{KFD}/x/properties"]
    paths += [f"sys/class/drm/card0/device/{n}" for n in ("vendor", "device", "uevent", "mem_info_vram_total")]
    paths += [f"sys/bus/pci/devices/{slot}/{name}" for name in ("vendor", "device", "class")]
    paths += [f"proc/driver/nvidia/gpus/{slot}/information", "proc/driver/nvidia/version", "proc/1/cgroup"]
    paths += ["proc/mounts", "proc/meminfo", "proc/cpuinfo", "sys/fs/cgroup/memory.max"]
    words = [
        *GPU,
        "0x1002",
        "4098",
        "90010",
        "-1",
        "9" * 40,
        "9" * 500,
        "\u0663",
        "Device Minor: 9",
        "MemTotal:",
        "kB",
        "é",
        "\0",
    ]
    words += [
        "/dev/shm",
        "size=",
        "size=9k",
        ":",
        "\n",
        "\n",
        " ",
        "\t",
        "PCI_SLOT_NAME=",
        "0x",
        "1e9",
        "model name : x",
    ]
    for attempt in range(150):
        root = tmp_path / str(attempt)
        text = {path: "".join(f"{word} " for word in rng.choices(words, k=rng.randint(0, 25))) for path in paths}
        machine = host_of({"files": text if attempt else {}, "packages": {}}, root)
        for source in (sysfs.kfd_cards, sysfs.nvidia_cards, sysfs.drm_cards, sysfs.pci_cards):
            assert isinstance(source(machine), list)
        for fact in (sysfs.container, sysfs.shared_memory_mib, sysfs.memory_mib, sysfs.processor, sysfs.refused_file):
            fact(machine)


def test_this_machine_is_read():
    here = Host.this()
    if here.system != "Linux":
        pytest.skip("the kernel's files are Linux's")
    assert sysfs.processor(here)
    memory = sysfs.memory_mib(here)
    assert memory is not None and memory > 100
    assert sysfs.kfd_cards(dataclasses.replace(here, root=Path("/no/such/root"))) == []
