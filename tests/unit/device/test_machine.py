"""A machine is put together from all sources, the most direct one believed."""

import json

from machines import host_of, machine

from tonetune.device.host import Host
from tonetune.device.machine import examine


def test_the_kernel_is_believed_before_torch(tmp_path):
    """With an override torch says gfx1030 of what is a gfx90a."""
    found = examine(host_of(machine("mi210_override"), tmp_path))
    assert [card.arch for card in found.torch.cards] == ["gfx1030"]
    assert [card.arch for card in found.cards] == ["gfx90a"]


def test_dies_of_one_card_are_devices_with_the_memory_of_one(tmp_path):
    cards = examine(host_of(machine("mi250x"), tmp_path)).cards
    assert [card.torch for card in cards] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert len({card.pci for card in cards}) == 4 and {card.memory_mib for card in cards} == {65536}


def test_training_computes_on_the_first_card_of_torch_else_on_the_processor(tmp_path):
    assert examine(host_of(machine("h200"), tmp_path / "a")).device.name == "NVIDIA H200"
    assert examine(host_of(machine("mi300x_cuda"), tmp_path / "b")).device.vendor == "cpu"


def test_cards_are_found_on_the_bus_alone(tmp_path):
    slot = "sys/bus/pci/devices/0000:83:00.0"
    files = {f"{slot}/vendor": "0x1002", f"{slot}/device": "0x740f", f"{slot}/class": "0x038000"}
    (card,) = examine(host_of({**machine("cpu"), "files": files}, tmp_path)).cards
    assert (card.name, card.arch, card.access) == ("AMD Instinct MI210", "gfx90a", None)


def test_no_tool_is_needed_where_torch_sees_what_the_files_do_not_show(tmp_path):
    """On Windows' Linux there is neither kfd nor a PCI bus."""
    seen = {"name": "AMD Radeon RX 7900 XTX", "gcn": "gfx1100", "capability": "110", "memory_bytes": 24 << 30}
    steps = ({"version": "2.13.0", "hip": "7.2", "cuda": None}, {"imported": True}, {"archs": ["gfx1100"]})
    steps += ({"devices": [{**seen, "integrated": False, "pci": None}]}, {"sums": [64.0]})
    out = "".join(json.dumps(step) + "\n" for step in steps)
    (card,) = examine(host_of({**machine("cpu"), "torch": {"out": out}}, tmp_path)).cards
    assert (card.name, card.memory_mib, card.torch, card.integrated) == (
        "AMD Radeon RX 7900 XTX",
        24576,
        "cuda:0",
        False,
    )


def test_a_machine_without_any_file_is_still_one(tmp_path):
    found = examine(host_of({"packages": {}, "torch": {"out": ""}}, tmp_path))
    assert (found.cards, found.processor.name, found.processor.memory_mib) == ((), "x86_64", None)
    assert found.torch.status == "broken"


def test_this_machine_is_examined_through_doors_of_its_own():
    here = Host.this()
    assert here.version_of("torch") and here.version_of("no-such-package-anywhere") is None
    assert here.group_of(here.root) is not None and here.group_of(here.root / "no" / "file") is None
