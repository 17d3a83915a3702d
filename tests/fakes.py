"""Libraries of GPU vendors as a machine without a GPU cannot have them: amdsmi and pynvml, in the shapes of theirs."""

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any


class AmdSmiException(Exception):
    """What amdsmi raises."""


class NVMLError(Exception):
    """What pynvml raises."""


def answer(value: Any) -> Any:
    """A value, or the error that it is."""
    if isinstance(value, Exception):
        raise value
    return value


AMD_CARD = {
    "uuid": "74ff7408-0000-1000-80ab-cdef01234567",
    "vram": {"vram_total": 65520, "vram_used": 12400},  # MB
    "activity": {"gfx_activity": 87, "umc_activity": 12, "mm_activity": "N/A"},  # %
    "HOTSPOT": 61,  # °C
    "EDGE": 48,
    "power": {"socket_power": 412, "current_socket_power": "N/A", "average_socket_power": 412, "power_limit": 560},  # W
}


def amdsmi(cards: Mapping[str, Mapping[str, Any]]) -> Any:
    """The module, for cards by their PCI addresses; a value that is an error is raised. `calls` counts two of them."""
    module: Any = types.ModuleType("amdsmi")
    module.calls = {"init": 0, "shut_down": 0}
    module.AmdSmiException = AmdSmiException
    module.AmdSmiTemperatureType = enum.IntEnum("AmdSmiTemperatureType", "EDGE HOTSPOT JUNCTION VRAM")
    module.AmdSmiTemperatureMetric = enum.IntEnum("AmdSmiTemperatureMetric", "CURRENT MAX")
    _counted(module, "amdsmi_init", "amdsmi_shut_down")

    def handle(bdf: str) -> Mapping[str, Any]:
        if bdf not in cards:
            raise AmdSmiException("AMDSMI_STATUS_NOT_FOUND - Device not found")
        return cards[bdf]

    module.amdsmi_get_processor_handle_from_bdf = handle
    module.amdsmi_get_processor_handles = lambda: list(cards.values())
    module.amdsmi_get_gpu_device_uuid = lambda card: answer(card["uuid"])
    module.amdsmi_get_gpu_vram_usage = lambda card: answer(card["vram"])
    module.amdsmi_get_gpu_activity = lambda card: answer(card["activity"])
    module.amdsmi_get_power_info = lambda card: answer(card["power"])
    module.amdsmi_get_temp_metric = lambda card, sensor, metric: answer(card[sensor.name])
    return module


NVIDIA_CARD = {
    "uuid": "GPU-8f6d3c1a-1111-2222-3333-444455556666",
    "memory": types.SimpleNamespace(total=150754820096, free=125829120000, used=24925700096),  # B
    "utilization": types.SimpleNamespace(gpu=93, memory=40),  # %
    "temperature": 44,  # °C
    "power": 512345,  # mW
}


def pynvml(cards: Mapping[str, Mapping[str, Any]]) -> Any:
    """The module of nvidia-ml-py, for cards by their PCI addresses."""
    module: Any = types.ModuleType("pynvml")
    module.calls = {"Init": 0, "Shutdown": 0}
    module.NVMLError, module.NVML_TEMPERATURE_GPU = NVMLError, 0
    _counted(module, "nvmlInit", "nvmlShutdown")

    def handle(bdf: str) -> Mapping[str, Any]:
        if bdf not in cards:
            raise NVMLError("Not Found")
        return cards[bdf]

    module.nvmlDeviceGetHandleByPciBusId = handle
    module.nvmlDeviceGetCount = lambda: len(cards)
    module.nvmlDeviceGetHandleByIndex = lambda index: [*cards.values()][index]
    module.nvmlDeviceGetUUID = lambda card: answer(card["uuid"])
    module.nvmlDeviceGetMemoryInfo = lambda card: answer(card["memory"])
    module.nvmlDeviceGetUtilizationRates = lambda card: answer(card["utilization"])
    module.nvmlDeviceGetTemperature = lambda card, sensor: answer(card["temperature"])
    module.nvmlDeviceGetPowerUsage = lambda card: answer(card["power"])
    return module


def _counted(module: Any, *names: str) -> None:
    """Functions that do nothing and count their calls, under what of their names is their own."""

    def count(kind: str) -> Callable[[], None]:
        def call() -> None:
            module.calls[kind] += 1

        return call

    for name, kind in zip(names, module.calls, strict=True):
        setattr(module, name, count(kind))
