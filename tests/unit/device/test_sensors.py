"""Every source says the same of a device in the same units, and what it does not know is missing."""

import dataclasses
import sys

import fakes
import psutil
import pytest

from tonetune.device import sensors
from tonetune.device.host import Ended, Host
from tonetune.device.sensors import KEYS, Source, celsius, measured, only, openers, since_last

DIES = ("0000:c1:00.0", "0000:c6:00.0")  # of one MI250X
PCI = "0000:19:00.0"
HOST = Host.this()


def readings(source: Source) -> dict[str, float | None]:
    """Everything that a source says, in the order of KEYS."""
    found = {key: value for sensor in source.sensors.values() for key, value in sensor().items()}
    assert set(found) <= set(KEYS)
    return {key: found[key] for key in KEYS if key in found}


@pytest.fixture
def amdsmi(monkeypatch):
    """Puts the library of some cards in the place of AMD's."""

    def put(cards):
        monkeypatch.setitem(sys.modules, "amdsmi", fakes.amdsmi(cards))
        return sys.modules["amdsmi"]

    return put


@pytest.fixture
def pynvml(monkeypatch):
    """Puts the library of some cards in the place of NVIDIA's."""

    def put(cards):
        monkeypatch.setitem(sys.modules, "pynvml", fakes.pynvml(cards))
        return sys.modules["pynvml"]

    return put


def test_each_kind_of_device_has_its_sources():
    assert list(openers("cpu", hip=False)) == list(openers("cpu", hip=True)) == ["psutil"]
    assert list(openers("cuda", hip=True)) == ["amdsmi", "sysfs"]
    assert list(openers("cuda", hip=False)) == ["nvml", "nvidia-smi"]


# --- AMD


def test_amdsmi_tells_the_dies_of_a_card_apart(amdsmi):
    second = {**fakes.AMD_CARD, "uuid": "other", "vram": {"vram_total": 65520, "vram_used": 0}, "HOTSPOT": 40}
    second |= {"power": dict.fromkeys(fakes.AMD_CARD["power"], 0)}
    amdsmi(dict(zip(DIES, (fakes.AMD_CARD, second), strict=True)))
    one, other = (sensors.amdsmi(bdf, HOST) for bdf in DIES)
    assert (one.uuid, other.uuid) == (fakes.AMD_CARD["uuid"], "other")
    assert list(readings(one).values()) == [12400.0, 65520.0, 87.0, 61.0, 412.0]
    assert list(readings(other).values()) == [0.0, 65520.0, 87.0, 40.0, None]  # the first die counts the power


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"HOTSPOT": "N/A"}, "temperature_c", 48.0),
        ({"HOTSPOT": fakes.AmdSmiException("not supported")}, "temperature_c", 48.0),
        ({"HOTSPOT": 61000}, "temperature_c", 61.0),
        ({"activity": {"gfx_activity": "N/A"}}, "utilization_percent", None),
        ({"activity": {}}, "utilization_percent", None),
        ({"vram": {"vram_used": "N/A", "vram_total": 5}}, "memory_used_mib", None),
        ({"power": {"current_socket_power": 700, "average_socket_power": "N/A"}}, "power_w", 700.0),
        ({"power": {"average_socket_power": "N/A"}}, "power_w", None),
    ],
)
def test_amdsmi_says_what_it_knows_in_any_version(amdsmi, changes, key, value):
    amdsmi({DIES[0]: fakes.AMD_CARD | changes})
    assert readings(sensors.amdsmi(DIES[0], HOST))[key] == value


def test_without_an_address_one_card_is_meant_and_of_two_none(amdsmi, pynvml):
    amdsmi({DIES[0]: fakes.AMD_CARD})
    assert sensors.amdsmi(None, HOST).uuid == fakes.AMD_CARD["uuid"]
    pynvml({PCI: fakes.NVIDIA_CARD})
    assert sensors.nvml(None, HOST).uuid == fakes.NVIDIA_CARD["uuid"]
    two_amd, two_nvidia = amdsmi(dict.fromkeys(DIES, fakes.AMD_CARD)), pynvml(dict.fromkeys(DIES, fakes.NVIDIA_CARD))
    for opener in (sensors.amdsmi, sensors.nvml):
        with pytest.raises(LookupError, match="2 answers"):
            opener(None, HOST)
    assert two_amd.calls == {"init": 1, "shut_down": 1} and two_nvidia.calls == {"Init": 1, "Shutdown": 1}


def test_the_kernel_s_files_are_enough_for_an_amd_card(tmp_path):
    card = tmp_path / "sys/bus/pci/devices" / DIES[0]
    (card / "hwmon/hwmon3").mkdir(parents=True)
    files = {"mem_info_vram_used": 12400 << 20, "mem_info_vram_total": 65520 << 20, "gpu_busy_percent": 87}
    files |= {"hwmon/hwmon3/temp1_label": "edge", "hwmon/hwmon3/temp1_input": 48000, "unique_id": "ab12"}
    files |= {"hwmon/hwmon3/temp2_label": "junction", "hwmon/hwmon3/temp2_input": 61000}
    files |= {"hwmon/hwmon3/power1_average": 412000000}
    for name, value in files.items():
        (card / name).write_text(f"{value}\n")
    host = dataclasses.replace(HOST, root=tmp_path)
    source = sensors.amd_files(DIES[0], host)
    assert list(readings(source).values()) == [12400.0, 65520.0, 87.0, 61.0, 412.0] and source.uuid == "ab12"
    for name in files:
        if name != "mem_info_vram_total":
            (card / name).write_text("N/A")
    assert list(readings(sensors.amd_files(DIES[0], host)).values()) == [None, 65520.0, None, None, None]
    for address in (DIES[1], None):
        with pytest.raises(LookupError, match="amdgpu"):
            sensors.amd_files(address, host)


# --- NVIDIA


def test_nvml_in_its_units(pynvml):
    library = pynvml({PCI: fakes.NVIDIA_CARD})
    source = sensors.nvml(PCI, HOST)
    assert readings(source) == pytest.approx(
        dict(zip(KEYS, (23771.0, 143771.0, 93, 44, 512.345), strict=True)), rel=1e-4
    )
    source.close()
    assert library.calls == {"Init": 1, "Shutdown": 1}
    del library.nvmlDeviceGetTemperature
    library.nvmlDeviceGetTemperatureV = lambda card, sensor: 45
    assert readings(sensors.nvml(PCI, HOST))["temperature_c"] == 45


def test_a_card_that_nvml_does_not_know_leaves_it_closed(pynvml):
    library = pynvml({})
    with pytest.raises(fakes.NVMLError):
        sensors.nvml(PCI, HOST)
    assert library.calls == {"Init": 1, "Shutdown": 1}


def smi(*outputs: str) -> Host:
    """A machine whose nvidia-smi prints one output after the other."""
    said = iter(outputs)
    return dataclasses.replace(HOST, run=lambda command, limit_s: Ended(0, next(said)))


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("23771, 143771, 93, 44, 512.35\n", [23771.0, 143771.0, 93.0, 44.0, 512.35]),
        ("23771, 143771, [N/A], 44, [Not Supported]\n", [23771.0, 143771.0, None, 44.0, None]),
        ("[N/A], [N/A], [N/A], [N/A], [Unknown Error]\n", [None] * 5),
    ],
)
def test_nvidia_smi_in_its_units(line, values):
    source = sensors.nvidia_smi(PCI, smi("GPU-1\n", line))
    assert (source.uuid, list(readings(source).values())) == ("GPU-1", values)


@pytest.mark.parametrize("output", ["", "No devices were found\nreally\n", "a, b\n"])
def test_an_nvidia_smi_that_fails_is_no_source(output):
    with pytest.raises(LookupError):
        sensors.nvidia_smi(PCI, smi(output))


def test_an_nvidia_smi_that_fails_later_raises():
    source = sensors.nvidia_smi(PCI, smi("GPU-1\n", "Unable to determine the device handle: GPU is lost\n"))
    with pytest.raises(LookupError, match="GPU is lost"):
        readings(source)


def test_nvidia_smi_is_asked_for_the_card_in_use():
    asked: list[tuple[str, ...]] = []

    def run(command, limit_s):
        asked.append(tuple(command))
        return Ended(0, "GPU-1\n")

    for bdf in (PCI, None):
        sensors.nvidia_smi(bdf, dataclasses.replace(HOST, run=run))
    assert [f"--id={PCI}" in command for command in asked] == [True, False]


# --- the processor, and what all share


def test_the_processor_of_this_machine():
    source = sensors.processor(None, HOST)
    first, second = readings(source), readings(source)
    assert first["memory_total_mib"] == psutil.virtual_memory().total / 2**20 > first["memory_used_mib"] > 0
    assert first["utilization_percent"] is None and 0 <= second["utilization_percent"] <= 100
    assert "power_w" not in first and (first["temperature_c"] is None or 0 < first["temperature_c"] < 150)
    process = sensors.this_process(None, HOST).sensors["process"]()
    assert 50 < process["process_memory_mib"] < first["memory_total_mib"] and process["process_cpu_percent"] is None


def test_the_hottest_core_is_the_temperature(monkeypatch):
    chips = {"coretemp": [sensors_of(61.0), sensors_of(64.5)], "nvme": [sensors_of(90.0)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: chips, raising=False)
    assert readings(sensors.processor(None, HOST))["temperature_c"] == 64.5
    monkeypatch.delattr(psutil, "sensors_temperatures")
    assert readings(sensors.processor(None, HOST))["temperature_c"] is None


def sensors_of(celsius_now: float):
    return type("shwtemp", (), {"current": celsius_now})()


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0.0), (87, 87.0), (1.5, 1.5), ("N/A", None), (None, None), (-1, None), (True, None), (float("nan"), None)],
)
def test_what_is_no_reading_is_missing(value, number):
    assert measured(value) == number


def test_degrees_come_whole_or_in_thousandths():
    assert [celsius(value) for value in (61, 61000, 110000, 0, "N/A")] == [61.0, 61.0, 110.0, 0.0, None]


def test_a_load_has_no_first_value_and_one_card_is_asked_for():
    read = since_last(lambda: 7.0)
    assert [read(), read(), read()] == [None, 7.0, 7.0]
    assert only([3]) == 3
    with pytest.raises(LookupError, match="0 answers"):
        only([])
