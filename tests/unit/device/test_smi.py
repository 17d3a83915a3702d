"""Whatever amd-smi, rocm-smi and nvidia-smi print: every known shape is read, and no output is an error."""

import json
import random
from collections.abc import Callable

import pytest

from tonetune.device.cards import Card
from tonetune.device.smi import amd_smi_cards, nvidia_smi_cards, rocm_smi_cards

ITEM = {
    "gpu": 0,
    "asic": {
        "market_name": "AMD Instinct MI300X",
        "vendor_id": "0x1002",
        "device_id": "0x74a1",
        "target_graphics_version": "gfx942",
    },
    "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}, "bit_width": 8192},
    "board": {"product_name": "N/A"},
    "bus": {"bdf": "0000:05:00.0"},
}
CARD = Card("amd", "AMD Instinct MI300X", "gfx942", 196592.0, "0000:05:00", 0x74A1)
ROCM = {
    "VRAM Total Memory (B)": "21458059264",
    "VRAM Total Used Memory (B)": "27856896",
    "Card Series": "Radeon RX 7900 XT",
    "Card Model": "0x744c",
    "Node ID": "1",
    "GFX Version": "gfx1100",
    "PCI Bus": "0000:03:00.0",
}
ROCM_CARD = Card("amd", "Radeon RX 7900 XT", "gfx1100", 21458059264 / 2**20, "0000:03:00", 0x744C)
NVIDIA = "NVIDIA H200, 143771, 9.0, 00000000:19:00.0, 580.95.05\n"


@pytest.mark.parametrize("document", [[ITEM], {"gpu_data": [ITEM]}, {"gpu_data": [ITEM], "version": 1}])
@pytest.mark.parametrize("before", ["", "WARNING: the driver is newer than this tool\n", "[warning] low power\n\n"])
def test_amd_smi_lists_cards_at_the_top_or_below_a_key_behind_whatever_it_says_first(document, before):
    for indent in (None, 4):
        assert amd_smi_cards(before + json.dumps(document, indent=indent)) == [CARD]


def test_the_board_names_a_card_better_than_the_market():
    item = {**ITEM, "board": {"product_name": "AMD Instinct MI300X OAM"}}
    assert amd_smi_cards(json.dumps([item]))[0].name == "AMD Instinct MI300X OAM"


@pytest.mark.parametrize(
    "name", ["N/A", "", "0x74a1", "AMD Radeon Graphics", "Advanced Micro Devices, Inc. [AMD/ATI]", 7, None]
)
def test_a_name_that_says_nothing_is_missing(name):
    item = {**ITEM, "asic": {**ITEM["asic"], "market_name": name}}
    assert amd_smi_cards(json.dumps([item]))[0].name is None


@pytest.mark.parametrize(
    ("size", "mib"),
    [
        ({"value": 65520, "unit": "MB"}, 65520.0),
        ({"value": 65520}, 65520.0),
        ({"value": "65520", "unit": "MiB"}, 65520.0),
        ({"value": 64, "unit": "GB"}, 65536.0),
        ({"value": 68702699520, "unit": "B"}, 65520.0),
        ("65520 MB", 65520.0),
        (65520, 65520.0),
        ("N/A", None),
        ({"value": "N/A", "unit": "MB"}, None),
        ({"value": 64, "unit": "furlongs"}, None),
        ({"value": None}, None),
        (True, None),
        (-5, None),
        (0, None),
        ([1], None),
    ],
)
def test_a_size_in_any_spelling_is_mib_or_missing(size, mib):
    assert amd_smi_cards(json.dumps([{**ITEM, "vram": {"size": size}}]))[0].memory_mib == mib


def test_an_address_that_static_lacks_comes_from_list_by_the_card_s_number():
    items = [{**ITEM, "gpu": gpu, "bus": {"bdf": "N/A"}} for gpu in (0, 1)]
    listed = [{"gpu": 1, "bdf": "0000:26:00.0"}, {"gpu": 0, "bdf": "0000:05:00.0"}]
    for shape in (listed, {"gpu_data": listed}):
        cards = amd_smi_cards(json.dumps(items), json.dumps(shape))
        assert [card.pci for card in cards] == ["0000:05:00", "0000:26:00"]
    assert [card.pci for card in amd_smi_cards(json.dumps(items), "not JSON")] == [None, None]


@pytest.mark.parametrize("spelling", [str, str.lower, str.upper])
def test_rocm_smi_spells_its_keys_as_it_likes(spelling: Callable[[str], str]):
    facts = {spelling(key): value for key, value in ROCM.items()}
    assert rocm_smi_cards(json.dumps({"card0": facts, "system": {"Driver version": "6.12"}})) == [ROCM_CARD]


def test_rocm_smi_cards_come_in_the_order_of_their_numbers():
    document = {f"card{i}": {**ROCM, "PCI Bus": f"0000:{i:02x}:00.0"} for i in (10, 2, 0)}
    assert [card.pci for card in rocm_smi_cards(json.dumps(document))] == ["0000:00:00", "0000:02:00", "0000:0a:00"]


def test_nvidia_smi_gives_cards_and_driver():
    cards, driver = nvidia_smi_cards(NVIDIA + NVIDIA.replace("19", "3b"))
    assert cards[0] == Card("nvidia", "NVIDIA H200", "sm_90", 143771.0, "0000:19:00", integrated=False)
    assert (len(cards), cards[1].pci, driver) == (2, "0000:3b:00", "580.95.05")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "[N/A], [N/A], [N/A], [N/A], [N/A]\n",
        "a,b,c\n",
    ],
)
def test_nvidia_smi_that_fails_gives_nothing(text):
    assert nvidia_smi_cards(text) == ([], None)


def test_a_part_that_nvidia_smi_does_not_know_is_missing():
    cards, driver = nvidia_smi_cards("NVIDIA GB10, [N/A], 12.1, 0000000F:01:00.0, [Unknown Error]\n")
    assert cards == [Card("nvidia", "NVIDIA GB10", "sm_121", None, "000f:01:00", integrated=False)]
    assert driver is None


def damaged(text: str, rng: random.Random) -> str:
    """The text cut off, with a piece taken out, or with other characters in it."""
    start, end = sorted(rng.choices(range(len(text) + 1), k=2))
    junk = rng.choice(["", "\0", "N/A", '"', "{", "]", "null", "\n", "9" * 30, "é", "-1", "\u2028", "NaN", "1e999"])
    return rng.choice([text[:end], text[:start] + junk + text[end:], text[:start] + junk + text[start:], junk * 50])


def nonsense(rng: random.Random, depth: int = 0) -> object:
    """A JSON value of any shape, with the keys that the parsers look for."""
    keys = ["gpu_data", "gpu", "asic", "vram", "board", "bus", "size", "value", "unit", "bdf", "card0", "market_name"]
    keys += ["target_graphics_version", "device_id", "product_name", *ROCM]
    leaves = [None, True, 0, -1, 2**70, 1.5, "", "N/A", "gfx942", "gfx", "0x74a1", "65520 MB", "0000:05:00.0", []]
    kind = rng.random() if depth < 6 else 1.0
    if kind < 0.4:
        return {rng.choice(keys): nonsense(rng, depth + 1) for _ in range(rng.randint(0, 5))}
    if kind < 0.6:
        return [nonsense(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return rng.choice(leaves)


def test_no_output_is_an_error_and_every_card_is_plausible():
    rng = random.Random(0)
    texts = [json.dumps([ITEM]), json.dumps({"gpu_data": [ITEM]}, indent=2), json.dumps({"card0": ROCM}), NVIDIA]
    outputs = ["", "[" * 5000, '{"gpu_data": ' * 2000, "[\n" * 50_000, "\n" * 100_000, "a" * 200_000, "1" * 5000]
    outputs += [damaged(rng.choice(texts), rng) for _ in range(1500)]
    outputs += [json.dumps(nonsense(rng)) for _ in range(1500)]
    found = 0
    for text in outputs:
        for card in (*amd_smi_cards(text, text), *rocm_smi_cards(text), *nvidia_smi_cards(text)[0]):
            found += 1
            assert card.name is None or card.name.strip()
            assert card.arch is None or card.arch[:3] in ("gfx", "sm_")
            assert card.memory_mib is None or 0 < card.memory_mib < float("inf")
            assert card.pci is None or len(card.pci) == 10
            assert card.pci_id is None or card.pci_id >= 0
    assert found > 100
