"""Every export of a run beside each other: size, speed, agreement with base and adapter, accuracy.

Usage: python benchmarks/exports.py RUN [--only merged:float32,onnx:int8,…] [--rows 1000] [--scratch DIR]
           [--out FILE.json]

Base and adapter score the held-out rows once, in float32. Each export is then written, read back and scored as `export`
does it; one that fails its gate stays in the table and says so. Texts/s are over these rows, as they come; latency is
the median of one text of 128 tokens alone, on as many threads as OMP_NUM_THREADS says. Formats whose packages are
missing are named and left out. Nothing of the exports is kept.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from tonetune.api.bundles import WRITERS
from tonetune.api.export import PRECISIONS, ROWS, held_out, task_by
from tonetune.api.loaded import load
from tonetune.api.setup import versions
from tonetune.errors import MissingExtraError, ModelError
from tonetune.export.heldout import Heldout
from tonetune.export.parity import limit_of, measure_parity
from tonetune.model.artefact import load_artefact
from tonetune.progress import ConsoleReporter
from tonetune.rundir import RunDir

TOKENS = 128
CALLS = 21
WEIGHTS = {".safetensors", ".onnx", ".data", ".gguf"}


@contextmanager
def clock() -> Iterator[list[float]]:
    """A list that holds the seconds that its block took."""
    seconds: list[float] = []
    begin = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - begin)


def latency_ms(classifier: Any, ids: np.ndarray) -> float:
    """Median milliseconds of one text alone, after two calls that are not counted."""
    took = []
    for _ in range(CALLS + 2):
        with clock() as seconds:
            classifier.scorer.logits([ids])
        took.append(1000 * seconds[0])
    return statistics.median(took[2:])


def measure(kind: str, precision: str, run: RunDir, loaded: Any, heldout: Heldout, scratch: Path) -> dict[str, Any]:
    """One row of the table."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    try:
        with clock() as writing:
            _, score = WRITERS[kind](place, run.adapter, loaded, precision)
        with clock() as scoring:
            found = score(heldout, lambda texts: None)
        parity = measure_parity(
            task_by(loaded),
            heldout.logits,
            found.logits,
            heldout.gold,
            limit_of(kind, precision),
            same_ids=found.same_ids,
        )
        size = sum(file.stat().st_size for file in place.iterdir() if file.suffix in WEIGHTS)
        long = np.resize(np.concatenate(heldout.ids), TOKENS).astype(np.int32)
        classifier = load(place)
        long = long[: classifier.scorer.tokenizer.max_length]
        row = {"kind": kind, "precision": precision, "size_mb": round(size / 1e6, 1), "write_s": round(writing[0], 1)}
        row |= {"texts_per_s": round(len(heldout.ids) / scoring[0], 2)}
        row |= {"latency_ms": round(latency_ms(classifier, long), 1), "latency_tokens": len(long)}
        return row | parity.as_dict()
    finally:
        shutil.rmtree(place)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, for docs/lab.md."""
    lines = ["| export | MB | texts/s | ms a text | same label | accuracy | gate |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['kind']}, {row['precision']} | {row['size_mb']:,.0f} | {row['texts_per_s']:.1f} "
            f"| {row['latency_ms']:.0f} | {row['agreement']:.1%} | {row['accuracy_after']:.3f} "
            f"| {'passed' if row['passed'] else 'refused'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", default="", help="kind:precision, separated by commas")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--scratch", type=Path, default=None, help="where exports are written, 2 GB for Gemma 3 270M")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    run, reporter, device = RunDir.open(arguments.run), ConsoleReporter(Console(stderr=True)), torch.device("cpu")
    loaded = load_artefact(run.adapter, device=device, dtype=torch.float32, say=reporter.say)
    heldout = held_out(run, loaded, device, reporter, rows=arguments.rows)
    every = [(kind, precision) for kind, names in PRECISIONS.items() if kind != "adapter" for precision in names]
    wanted = [tuple(name.split(":")) for name in arguments.only.split(",") if name] or every
    rows: list[dict[str, Any]] = []
    for kind, precision in wanted:
        reporter.say(f"{kind}, {precision}")
        try:
            rows.append(measure(kind, precision, run, loaded, heldout, arguments.scratch))
        except (MissingExtraError, ModelError) as error:
            reporter.say(f"left out: {error}")
            continue
        reporter.say(table(rows[-1:]).splitlines()[-1])
        if arguments.out is not None:  # what is done stays, whatever becomes of the rest
            document = {"run": run.path.name, "versions": versions(), "threads": torch.get_num_threads(), "rows": rows}
            arguments.out.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
