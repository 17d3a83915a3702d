"""What a run knows beside the training loop: its best model, its figures so far, and how far its files have come."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tonetune.data.splits import VALIDATION
from tonetune.rundir import RunDir, read_json, write_json, writing
from tonetune.training.loop import StepEvent, Stopwatch

LOGITS = "validation_logits"


class Track:
    """The best model and its validation logits, shape (N, C), the stopwatch, and the files that grow with training."""

    def __init__(
        self,
        run: RunDir,
        before: dict[str, Tensor],
        *,
        began_s: float,
        peak_mib: Callable[[], float],
        num_labels: int,
    ) -> None:
        """`before` is the model as training finds it; `began_s` is when loading began (perf_counter),
        less what a run that goes on took before; `peak_mib` speaks of this process."""
        self.run = run
        self.best = before
        self.best_logits: NDArray[np.float32] = np.zeros((0, num_labels), dtype=np.float32)
        self.watch = Stopwatch()
        self._warmup_s = 0.0
        self._began_s, self._peak_mib = began_s, peak_mib
        self._earlier_peak_mib = 0.0

    def improved(self, snapshot: dict[str, Tensor], logits: NDArray[np.float32]) -> None:
        """Remember a model that is better than all before."""
        self.best, self.best_logits = snapshot, logits

    def step(self, event: StepEvent) -> None:
        """Count a step."""
        self.watch.step(event)
        self._warmup_s = self.watch.train_s if event.step == 1 else self._warmup_s

    @property
    def wall_s(self) -> float:
        """Seconds since loading began."""
        return time.perf_counter() - self._began_s

    def figures(self) -> dict[str, Any]:
        """What run.json says of training; memory is that of the process that took most."""
        return {
            "samples_per_s": self.watch.texts_per_s,
            "tokens_per_s": self.watch.tokens_per_s,
            "warmup_s": self._warmup_s,
            "peak_memory_mib": max(self._earlier_peak_mib, self._peak_mib()),
        }

    def kept(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """For a checkpoint; what the files hold is on disk before it says so."""
        sizes = {}
        for path in self._growing():
            with writing(path), open(path, "ab") as file:
                os.fsync(file.fileno())
                sizes[path.name] = file.tell()
        watch, has_best = self.watch, len(self.best_logits) > 0
        counts = {"train_s": watch.train_s, "num_texts": watch.num_texts, "num_tokens": watch.num_tokens}
        document = {
            "files": sizes,
            "best": read_json(self.run.best) if has_best else None,
            "watch": counts,
            "figures": {**self.figures(), "wall_s": self.wall_s},
        }
        return document, {**self.best, LOGITS: torch.from_numpy(self.best_logits)} if has_best else {}

    def restore(self, document: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """The counterpart of `kept`, for what is in memory; `cut_back` is the one for the files."""
        figures = document["figures"]
        self.watch = Stopwatch(**document["watch"])
        self._warmup_s = figures["warmup_s"]
        self._earlier_peak_mib = figures["peak_memory_mib"]
        if tensors:
            self.best = {name: tensor for name, tensor in tensors.items() if name != LOGITS}
            self.best_logits = tensors[LOGITS].numpy()

    def _growing(self) -> tuple[Path, Path]:
        return self.run.metrics, self.run.watch


def fits(run: RunDir, state: Mapping[str, Any]) -> bool:
    """Whether the metrics of a run hold at least what they held at a checkpoint."""
    size = state["aside"]["files"][run.metrics.name]
    return run.metrics.is_file() and run.metrics.stat().st_size >= size


def cut_back(run: RunDir, state: Mapping[str, Any] | None) -> None:
    """Take back what a run wrote after a checkpoint, or (None) after its start. Raises DiskError."""
    sizes: dict[str, int] = state["aside"]["files"] if state else {run.metrics.name: 0, run.watch.name: 0}
    best = state["aside"]["best"] if state else None
    validated = state["step"] - state["position"]["validation_due"] if state else 0
    with writing(run.path):
        for name, size in sizes.items():
            if (path := run.path / name).is_file() and path.stat().st_size > size:
                os.truncate(path, size)
        for path in run.evaluation(VALIDATION).glob("step-*.jsonl"):
            if int(path.stem.removeprefix("step-")) > validated:
                path.unlink()
        if best is None:
            run.best.unlink(missing_ok=True)
    if best is not None:
        write_json(run.best, best)
