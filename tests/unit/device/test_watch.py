"""The live watch: rows come, errors are told once, and it ends with what it watches, whatever ended that."""

import dataclasses
import sys
import threading
import time
import types

import fakes
import pytest
import torch

from tonetune.device import watch as module
from tonetune.device.host import Ended, Host
from tonetune.device.sensors import KEYS, Source
from tonetune.device.watch import Watch, beside_the_bar
from tonetune.errors import DiskError

CPU = torch.device("cpu")
PCI = "0000:c6:00.0"
NOTHING = dataclasses.replace(Host.this(), run=lambda command, limit_s: Ended(None))
SAMPLE_KEYS = ["event", "time_s", "device", *KEYS, "process_memory_mib", "process_cpu_percent"]


def watched(device=CPU, *, until=1, host=NOTHING, rows=None):
    """The rows of a watch that ends after so many samples."""
    rows = [] if rows is None else rows
    with Watch(device, rows.append, began_s=time.perf_counter(), every_s=0.01, host=host) as watch:
        deadline = time.perf_counter() + 10
        while sum(row["event"] == "sample" for row in rows) < until and time.perf_counter() < deadline:
            time.sleep(0.005)
            watch.flush()
    assert not watch._thread.is_alive()
    return rows


def failures(rows):
    return [(row["source"], row["sensor"], row["error"]) for row in rows if row["event"] == "sensor_failed"]


@pytest.fixture
def card(monkeypatch):
    """A card of torch's, as the second device of two; returns it."""
    properties = types.SimpleNamespace(name="AMD Instinct MI250X", pci_domain_id=0, pci_bus_id=0xC6, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    for name in ("amdsmi", "pynvml"):
        monkeypatch.setitem(sys.modules, name, None)  # not installed
    return torch.device("cuda", 1)


def test_the_processor_is_watched_while_a_block_runs():
    head, *samples = watched(until=3)
    assert (head["event"], head["device"], head["source"], head["every_s"]) == ("watch", "cpu", "psutil", 0.01)
    assert head["name"] and (head["bdf"], head["uuid"]) == (None, None)
    assert len(samples) >= 3 and {row["event"] for row in samples} == {"sample"}
    assert all(list(row) == SAMPLE_KEYS for row in samples)
    assert all(row["process_memory_mib"] > 50 and row["power_w"] is None for row in samples)
    times = [row["time_s"] for row in (head, *samples)]
    assert times == sorted(times) and times[0] >= 0


def test_a_block_that_ends_at_once_has_a_sample():
    rows: list = []
    with Watch(CPU, rows.append, began_s=time.perf_counter(), every_s=60.0):
        pass
    assert [row["event"] for row in rows] == ["watch", "sample"]


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(2)])
def test_it_ends_with_what_it_watches_however_that_ends(error):
    rows: list = []
    with pytest.raises(type(error)), Watch(CPU, rows.append, began_s=time.perf_counter(), every_s=60.0):
        raise error
    assert rows[-1]["event"] == "sample"
    assert "tonetune-watch" not in {thread.name for thread in threading.enumerate()}


def test_a_full_disk_is_told_unless_something_else_was_first():
    def full(row):
        raise DiskError("the disk is full")

    with pytest.raises(DiskError), Watch(CPU, full, began_s=0.0, every_s=60.0):
        pass
    with pytest.raises(KeyboardInterrupt), Watch(CPU, full, began_s=0.0, every_s=60.0):
        raise KeyboardInterrupt


def test_the_card_in_use_is_named_by_index_address_and_uuid(card, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    dies = {"0000:c1:00.0": fakes.AMD_CARD, PCI: fakes.AMD_CARD | {"uuid": "second", "HOTSPOT": 70}}
    library = fakes.amdsmi(dies)
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    head, sample, *_ = watched(card)
    named = {"device": "cuda:1", "name": "AMD Instinct MI250X", "bdf": PCI, "uuid": "second", "source": "amdsmi"}
    assert named.items() <= head.items()
    assert [sample[key] for key in ("device", *KEYS)] == ["cuda:1", 12400.0, 65520.0, 87.0, 70.0, 412.0]
    assert library.calls == {"init": 1, "shut_down": 1}


@pytest.mark.gpu
def test_a_real_card_is_watched():
    held = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
    rows = watched(torch.device("cuda", 0), until=2, host=Host.this())
    (head,) = [row for row in rows if row["event"] == "watch"]
    assert head["source"] != "none" and head["uuid"] and head["name"] == torch.cuda.get_device_name(0)
    total_mib = torch.cuda.mem_get_info(0)[1] / 2**20
    assert held.numel() / 2**20 < rows[-1]["memory_used_mib"] <= rows[-1]["memory_total_mib"]
    assert rows[-1]["memory_total_mib"] == pytest.approx(total_mib, rel=0.05)
    assert 0 < rows[-1]["temperature_c"] < 120 and 0 < rows[-1]["power_w"] < 2000


def test_a_sensor_that_raises_is_told_of_once_and_the_others_go_on(card, monkeypatch):
    broken = fakes.NVIDIA_CARD | {
        "power": fakes.NVMLError("Not Supported"),
        "utilization": fakes.NVMLError("GPU is lost"),
    }
    monkeypatch.setitem(sys.modules, "pynvml", fakes.pynvml({PCI: broken}))
    rows = watched(card, until=4)
    expected = [("nvml", "utilization", "NVMLError: GPU is lost"), ("nvml", "power", "NVMLError: Not Supported")]
    assert failures(rows) == expected
    samples = [row for row in rows if row["event"] == "sample"]
    assert len(samples) >= 4
    assert all((s["temperature_c"], s["power_w"], s["utilization_percent"]) == (44.0, None, None) for s in samples)


def test_a_library_that_is_missing_gives_way_to_the_vendor_s_program(card):
    def run(command, limit_s):
        return Ended(0, "GPU-1\n" if "--query-gpu=uuid" in command else "10, 20, 30, 40, 50.5\n")

    rows = watched(card, host=dataclasses.replace(NOTHING, run=run), until=2)
    assert [(source, sensor) for source, sensor, _ in failures(rows)] == [("nvml", "open")]
    (head,) = [row for row in rows if row["event"] == "watch"]
    assert (head["source"], head["uuid"]) == ("nvidia-smi", "GPU-1")
    assert [rows[-1][key] for key in KEYS] == [10.0, 20.0, 30.0, 40.0, 50.5]


@pytest.mark.parametrize(("hip", "sources"), [(None, ["nvml", "nvidia-smi"]), ("6.4", ["amdsmi", "sysfs"])])
def test_a_card_that_nothing_speaks_for_leaves_the_process(card, monkeypatch, tmp_path, hip, sources):
    monkeypatch.setattr(torch.version, "hip", hip)
    rows = watched(card, until=2, host=dataclasses.replace(NOTHING, root=tmp_path))
    assert [(source, sensor) for source, sensor, _ in failures(rows)] == [(source, "open") for source in sources]
    (head,) = [row for row in rows if row["event"] == "watch"]
    assert head["source"] == "none" and rows[-1]["process_memory_mib"] > 50
    assert [rows[-1][key] for key in KEYS] == [None] * 5


def test_a_sensor_that_hangs_holds_nothing_up(monkeypatch):
    ended = threading.Event()
    hanging = Source("slow", {"all": lambda: {"power_w": float(ended.wait(30))}})
    monkeypatch.setattr(module, "openers", lambda kind, hip: {"slow": lambda bdf, host: hanging})
    monkeypatch.setattr(module, "STOP_WITHIN_S", 0.05)
    began_s = time.perf_counter()
    with Watch(CPU, lambda row: None, began_s=began_s):
        pass
    assert time.perf_counter() - began_s < 10
    ended.set()


def test_a_close_that_fails_is_told_of(monkeypatch):
    source = Source("odd", {}, close=lambda: fakes.answer(OSError("gone")))
    monkeypatch.setattr(module, "openers", lambda kind, hip: {"odd": lambda bdf, host: source})
    assert failures(watched()) == [("odd", "close", "OSError: gone")]


def test_what_stands_beside_the_bar():
    sample = {"device": "cuda:0", "memory_used_mib": 23771.0, "utilization_percent": 93.0, "temperature_c": 44.0}
    sample |= {"power_w": 512.3, "process_memory_mib": 2048.0}
    assert beside_the_bar(sample) == ["23.2 GiB", "93%", "44°C", "512W"]
    unknown = dict.fromkeys(KEYS) | {"device": "cpu", "process_memory_mib": 2048.0}
    assert beside_the_bar(unknown) == ["2.0 GiB"]
    assert beside_the_bar(None) == []
