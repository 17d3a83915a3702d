"""The live watch: a thread that asks the device in use every few seconds how it is, and never holds training up."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from tonetune.device.host import Host
from tonetune.device.sensors import KEYS, Readings, Sensor, Source, openers, this_process
from tonetune.device.sysfs import processor
from tonetune.device.torch_build import first_line
from tonetune.errors import DiskError

EVERY_S = 5.0
STOP_WITHIN_S = 5.0
"""How long the end of a run waits for a sensor that hangs; its thread dies with the process."""

Row = Mapping[str, Any]


class Watch:
    """Samples of one device while a block runs, as rows for watch.jsonl.

    Rows are made in a thread and written by `flush` in the caller's, so that a full disk is the caller's error. One row
    names the device, the others are samples every `every_s` seconds, at least one, and each sensor's first failure.
    """

    def __init__(
        self,
        device: torch.device,
        write: Callable[[Row], None],
        *,
        began_s: float,
        every_s: float = EVERY_S,
        host: Host | None = None,
    ) -> None:
        """`began_s` is the perf_counter from which the rows' `time_s` counts."""
        self.latest: Row | None = None
        self._device, self._write, self._began_s, self._every_s = device, write, began_s, every_s
        self._host = host or Host.this()
        self._rows: deque[Row] = deque()
        self._failed: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tonetune-watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(STOP_WITHIN_S)
        with contextlib.suppress(DiskError) if error else contextlib.nullcontext():  # the first error is told
            self.flush()

    def flush(self) -> None:
        """Write the rows that have come since the last call. Raises DiskError."""
        while self._rows:
            self._write(self._rows.popleft())

    def _run(self) -> None:
        name, bdf = _identity(self._device, self._host)
        source = self._open(bdf)
        self._row("watch", name=name, bdf=bdf, uuid=source.uuid, source=source.name, every_s=self._every_s)
        sensors = {**source.sensors, **this_process(bdf, self._host).sensors}
        try:
            while True:
                self.latest = self._row("sample", **self._sample(source.name, sensors))
                if self._stop.wait(self._every_s):
                    return
        finally:
            with self._failures(source.name, "close"):
                source.close()

    def _open(self, bdf: str | None) -> Source:
        """The first source that answers, else one without sensors."""
        for name, opener in openers(self._device.type, hip=torch.version.hip is not None).items():
            with self._failures(name, "open"):
                return opener(bdf, self._host)
        return Source("none", {})

    def _sample(self, source: str, sensors: Mapping[str, Sensor]) -> Readings:
        """What every sensor says now, rounded; None for what none of them knows."""
        found: dict[str, float | None] = dict.fromkeys(KEYS)
        for name, read in sensors.items():
            with self._failures(source, name):
                found |= {key: None if value is None else round(value, 1) for key, value in read().items()}
        return found

    @contextlib.contextmanager
    def _failures(self, source: str, sensor: str) -> Iterator[None]:
        """Make a row of an error inside, once for each sensor: libraries of drivers raise what they like."""
        try:
            yield
        except Exception as error:
            if f"{source} {sensor}" not in self._failed:
                self._failed.add(f"{source} {sensor}")
                said = f"{type(error).__name__}: {first_line(error)}"
                self._row("sensor_failed", source=source, sensor=sensor, error=said)

    def _row(self, event: str, **fields: object) -> Row:
        time_s = round(time.perf_counter() - self._began_s, 3)
        row = {"event": event, "time_s": time_s, "device": str(self._device), **fields}
        self._rows.append(row)
        return row


def beside_the_bar(sample: Row | None) -> list[str]:
    """What of a sample stands beside the progress: memory of the card, or on a CPU of this process, then the rest."""
    if sample is None:
        return []
    memory_mib = sample["process_memory_mib" if sample["device"] == "cpu" else "memory_used_mib"]
    parts = (
        (None if memory_mib is None else memory_mib / 1024, ".1f", " GiB"),
        (sample["utilization_percent"], ".0f", "%"),
        (sample["temperature_c"], ".0f", "°C"),
        (sample["power_w"], ".0f", "W"),
    )
    return [f"{value:{form}}{unit}" for value, form, unit in parts if value is not None]


def _identity(device: torch.device, host: Host) -> tuple[str | None, str | None]:
    """Name and PCI address of a device; the dies of one card differ in the address."""
    if device.type == "cpu":
        return processor(host) or host.architecture, None
    properties = torch.cuda.get_device_properties(device)
    place: list[Any] = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return properties.name, None if None in place else "{:04x}:{:02x}:{:02x}.0".format(*place)
