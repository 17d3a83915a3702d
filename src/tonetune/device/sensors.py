"""What a device says of itself while it works: memory, load, temperature and power, from the first source that answers.

AMD: the package `amdsmi`, else the kernel's files. NVIDIA: `pynvml` (distribution nvidia-ml-py), else `nvidia-smi`.
The processor: psutil.
"""

import importlib
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from tonetune.device.host import Host
from tonetune.device.sysfs import number

SMI_LIMIT_S = 10.0
SMI_COLUMNS = ("memory.used", "memory.total", "utilization.gpu", "temperature.gpu", "power.draw")
HOTTEST_C = 1000.0
"""Above it a temperature is in thousandths of a degree, as some versions of amdsmi give it."""
CPU_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")

Readings = Mapping[str, float | None]
Sensor = Callable[[], Readings]

KEYS = ("memory_used_mib", "memory_total_mib", "utilization_percent", "temperature_c", "power_w")
"""What a device may say, units in the names. Utilization is the share of time in which any kernel ran."""


@dataclass(frozen=True)
class Source:
    """Where readings come from; each sensor gives some of KEYS, and raises whatever its library does."""

    name: str
    sensors: Mapping[str, Sensor]
    uuid: str | None = None
    close: Callable[[], object] = lambda: None


Opener = Callable[[str | None, Host], Source]
"""Opens a source for the card at a PCI address ("0000:c1:00.0"), None where that is not known; may raise anything."""


def openers(device_type: str, *, hip: bool) -> dict[str, Opener]:
    """The sources for a kind of device, the best first; `hip` tells AMD's cards from NVIDIA's."""
    if device_type == "cpu":
        return {"psutil": processor}
    return {"amdsmi": amdsmi, "sysfs": amd_files} if hip else {"nvml": nvml, "nvidia-smi": nvidia_smi}


def measured(value: object) -> float | None:
    """A number that can be true; None for "N/A", for what is negative, infinite or no number."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if known else None  # type: ignore[arg-type]


def celsius(value: object) -> float | None:
    """Degrees, whether they come whole or in thousandths."""
    degrees = measured(value)
    return degrees / 1000 if degrees is not None and degrees > HOTTEST_C else degrees


def amdsmi(bdf: str | None, host: Host) -> Source:
    """AMD's own library, whose version must be that of the installed ROCm."""
    smi = importlib.import_module("amdsmi")
    smi.amdsmi_init()
    try:
        card = smi.amdsmi_get_processor_handle_from_bdf(bdf) if bdf else only(smi.amdsmi_get_processor_handles())
        uuid = smi.amdsmi_get_gpu_device_uuid(card)
    except BaseException:
        smi.amdsmi_shut_down()
        raise

    def memory() -> Readings:
        usage = smi.amdsmi_get_gpu_vram_usage(card)  # MB of 2^20 bytes
        return {
            "memory_used_mib": measured(usage.get("vram_used")),
            "memory_total_mib": measured(usage.get("vram_total")),
        }

    def utilization() -> Readings:
        return {"utilization_percent": measured(smi.amdsmi_get_gpu_activity(card).get("gfx_activity"))}

    def temperature() -> Readings:
        """The hottest point of the die, else its edge, which MI300 does not have."""
        now = smi.AmdSmiTemperatureMetric.CURRENT
        try:
            hotspot = celsius(smi.amdsmi_get_temp_metric(card, smi.AmdSmiTemperatureType.HOTSPOT, now))
        except smi.AmdSmiException:
            hotspot = None
        if hotspot is not None:
            return {"temperature_c": hotspot}
        return {"temperature_c": celsius(smi.amdsmi_get_temp_metric(card, smi.AmdSmiTemperatureType.EDGE, now))}

    def power() -> Readings:
        """Watts of the socket: now, else the average; 0 on the second die of an MI250X, whose first counts for both."""
        info = smi.amdsmi_get_power_info(card)
        kinds = ("socket_power", "current_socket_power", "average_socket_power")
        return {"power_w": next((watts for kind in kinds if (watts := measured(info.get(kind)))), None)}

    sensors = {"memory": memory, "utilization": utilization, "temperature": temperature, "power": power}
    return Source("amdsmi", sensors, uuid, smi.amdsmi_shut_down)


def amd_files(bdf: str | None, host: Host) -> Source:
    """The files of the amdgpu driver, which need no library. Raises LookupError where it does not serve the card."""
    card = f"sys/bus/pci/devices/{bdf}"
    if bdf is None or number(host.text(f"{card}/mem_info_vram_total")) is None:
        raise LookupError(f"no files of the amdgpu driver for a card at {bdf}")
    hwmon = next((f"{card}/hwmon/{name}" for name in host.entries(f"{card}/hwmon")), f"{card}/hwmon")

    def value(path: str, unit: float = 1.0) -> float | None:
        found = number(host.text(path))
        return None if found is None else found / unit

    def memory() -> Readings:
        return {f"memory_{key}_mib": value(f"{card}/mem_info_vram_{key}", 2**20) for key in ("used", "total")}

    def temperature() -> Readings:
        labels = {host.text(f"{hwmon}/temp{i}_label"): f"{hwmon}/temp{i}_input" for i in range(1, 4)}
        return {"temperature_c": value(labels.get("junction") or f"{hwmon}/temp1_input", 1000)}

    def power() -> Readings:
        kinds = (value(f"{hwmon}/power1_{kind}", 1e6) for kind in ("input", "average"))
        return {"power_w": next((watts for watts in kinds if watts), None)}

    return Source(
        "sysfs",
        {
            "memory": memory,
            "utilization": lambda: {"utilization_percent": value(f"{card}/gpu_busy_percent")},
            "temperature": temperature,
            "power": power,
        },
        host.text(f"{card}/unique_id"),
    )


def nvml(bdf: str | None, host: Host) -> Source:
    """NVIDIA's own library, through pynvml."""
    library = importlib.import_module("pynvml")
    library.nvmlInit()
    try:
        if bdf:
            card = library.nvmlDeviceGetHandleByPciBusId(bdf)
        else:
            card = library.nvmlDeviceGetHandleByIndex(only(range(library.nvmlDeviceGetCount())))
        uuid = library.nvmlDeviceGetUUID(card)
    except BaseException:
        library.nvmlShutdown()
        raise
    degrees = getattr(library, "nvmlDeviceGetTemperature", None) or library.nvmlDeviceGetTemperatureV

    def memory() -> Readings:
        info = library.nvmlDeviceGetMemoryInfo(card)
        return {"memory_used_mib": info.used / 2**20, "memory_total_mib": info.total / 2**20}

    return Source(
        "nvml",
        {
            "memory": memory,
            "utilization": lambda: {"utilization_percent": measured(library.nvmlDeviceGetUtilizationRates(card).gpu)},
            "temperature": lambda: {"temperature_c": measured(degrees(card, library.NVML_TEMPERATURE_GPU))},
            "power": lambda: {"power_w": measured(library.nvmlDeviceGetPowerUsage(card) / 1000)},
        },
        uuid.decode() if isinstance(uuid, bytes) else uuid,
        library.nvmlShutdown,
    )


def nvidia_smi(bdf: str | None, host: Host) -> Source:
    """NVIDIA's program, run anew for every sample. Raises LookupError where it does not know the card."""

    def ask(*columns: str) -> list[str]:
        query = ("--query-gpu=" + ",".join(columns), "--format=csv,noheader,nounits")
        ended = host.run(("nvidia-smi", *((f"--id={bdf}",) if bdf else ()), *query), SMI_LIMIT_S)
        cells = [cell.strip() for cell in only(ended.out.strip().splitlines()).split(",")]
        if len(cells) != len(columns):
            raise LookupError(f"nvidia-smi says {cells[0][:200]!r}")
        return cells

    def all_readings() -> Readings:
        numbers = (cell if re.fullmatch(r"\d+(\.\d+)?", cell) else None for cell in ask(*SMI_COLUMNS))
        return {key: None if cell is None else float(cell) for key, cell in zip(KEYS, numbers, strict=True)}

    (uuid,) = ask("uuid")
    return Source("nvidia-smi", {"nvidia-smi": all_readings}, uuid)


def processor(bdf: str | None, host: Host) -> Source:
    """Memory and load of the whole machine; a temperature where the system has one, and never a power."""
    load = since_last(psutil.cpu_percent)

    def memory() -> Readings:
        found = psutil.virtual_memory()
        return {
            "memory_used_mib": (found.total - found.available) / 2**20,
            "memory_total_mib": found.total / 2**20,
        }

    def temperature() -> Readings:
        chips: Mapping[str, Any] = psutil.sensors_temperatures() if hasattr(psutil, "sensors_temperatures") else {}
        degrees = [celsius(sensor.current) for name in CPU_CHIPS for sensor in chips.get(name, ())]
        return {"temperature_c": max((value for value in degrees if value is not None), default=None)}

    return Source(
        "psutil",
        {
            "memory": memory,
            "utilization": lambda: {"utilization_percent": load()},
            "temperature": temperature,
        },
    )


def this_process(bdf: str | None, host: Host) -> Source:
    """Resident memory of this process, and its load: 100 % is one core."""
    process = psutil.Process()
    load = since_last(process.cpu_percent)

    def read() -> Readings:
        return {"process_memory_mib": process.memory_info().rss / 2**20, "process_cpu_percent": load()}

    return Source("psutil", {"process": read})


def since_last(load: Callable[[], float]) -> Callable[[], float | None]:
    """psutil's load since the call before, which the first call does not have and calls 0."""
    calls = itertools.count()

    def read() -> float | None:
        found = load()
        return found if next(calls) else None

    return read


def only(found: Any) -> Any:
    """The one thing that was found. Raises LookupError where there is none, or which one is meant is not known."""
    if len(found) != 1:
        raise LookupError(f"{len(found)} answers, where one card was asked for")
    return found[0]
