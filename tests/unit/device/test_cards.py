"""Cards that several sources see are put together once each, and nothing that is known is lost."""

import itertools
import random
import re

from tonetune.device.cards import Card, _table, identified, integrated, merge, telling

KERNEL = [Card("amd", arch="gfx90a", pci="0000:05:00"), Card("amd", arch="gfx90a", pci="0000:26:00")]


def test_cards_are_one_where_their_addresses_agree_in_whatever_order():
    tool = [Card("amd", name=f"card at {pci}", pci=f"0000:{pci}:00") for pci in ("26", "05")]
    assert [card.name for card in merge(KERNEL, tool)] == ["card at 05", "card at 26"]


def test_what_is_known_is_not_overwritten():
    (card,) = merge([Card("amd", arch="gfx90a", pci="0000:05:00")], [Card("amd", "MI210", "gfx1030", 65520.0)])
    assert card == Card("amd", "MI210", "gfx90a", 65520.0, "0000:05:00")


def test_a_card_without_an_address_is_matched_by_architecture_before_order():
    known = [Card("amd", arch="gfx1036"), Card("amd", arch="gfx1100")]
    cards = merge(known, [Card("amd", "RX 7900 XTX", "gfx1100", torch="cuda:0")])
    assert [card.torch for card in cards] == [None, "cuda:0"]


def test_two_partitions_at_one_address_take_one_entry_each():
    known = [Card("amd", arch="gfx942", pci="0000:05:00")] * 3
    cards = merge(known, [Card("amd", pci="0000:05:00", torch=f"cuda:{i}") for i in range(3)])
    assert [card.torch for card in cards] == ["cuda:0", "cuda:1", "cuda:2"]


def test_a_card_that_only_one_source_sees_is_kept():
    other = [Card("amd", pci="0000:99:00"), Card("nvidia", name="H200")]
    assert merge(KERNEL, other) == [*KERNEL, *other]
    assert merge([], other) == other


def test_no_source_adds_a_card_twice_and_no_card_is_lost():
    rng = random.Random(0)
    for _ in range(500):
        truth = [(rng.choice(["amd", "nvidia"]), f"0000:{bus:02x}:00") for bus in range(rng.randint(0, 5))]
        sources = []
        for _ in range(3):
            seen = rng.sample(truth, rng.randint(0, len(truth)))
            sources.append([Card(vendor, pci=pci) for vendor, pci in seen])
        cards: list[Card] = []
        for source in sources:
            cards = merge(cards, source)
        assert sorted(str(c.pci) for c in cards) == sorted({str(c.pci) for c in itertools.chain(*sources)})


def test_the_table_of_cards_is_sound():
    rows = _table()
    assert len(rows) > 20
    assert len({row["pci_id"] for row in rows}) == len(rows)
    assert all(re.fullmatch(r"[0-9a-f]{4}", row["pci_id"]) and row["name"] for row in rows)
    assert all(re.fullmatch(r"gfx\d+[0-9a-f]{2}", row["arch"]) for row in rows)
    shared = {(row["arch"], row["integrated"]) for row in rows}
    assert len(shared) == len({arch for arch, _ in shared}), "an architecture is in processors or on cards"


def test_a_device_number_fills_gaps_only():
    assert identified(Card("amd", pci_id=0x740F)) == Card(
        "amd", "AMD Instinct MI210", "gfx90a", pci_id=0x740F, integrated=False
    )
    assert identified(Card("amd", "mine", "gfx90c", pci_id=0x740F, integrated=True)).name == "mine"
    for card in (Card("nvidia", pci_id=0x740F), Card("amd", pci_id=1), Card("amd")):
        assert identified(card) == card


def test_whether_graphics_share_memory_is_known_for_known_architectures_only():
    assert (integrated("gfx1103"), integrated("gfx90a"), integrated("gfx9999"), integrated(None)) == (
        True,
        False,
        None,
        None,
    )


def test_a_name_tells_something_or_is_missing():
    assert telling("AMD Instinct MI210") == "AMD Instinct MI210"
    assert [telling(name) for name in ("", "N/A", "0x740f", "AMD Radeon Graphics", None)] == [None] * 5


def test_a_card_is_called_by_its_name_or_by_its_number():
    assert [Card("nvidia", "H200").label, Card("amd", pci_id=0x7A).label, Card("amd").label] == [
        "H200",
        "AMD card 007a",
        "AMD card",
    ]
