"""Time and peak memory of `tonetune inspect` and `tonetune prepare` on many rows, near duplicates included.

    python benchmarks/prepare_rows.py [--rows 5000000] [--together] [--out FILE.json]

The rows are made of real ones: clauses of the demo's reviews, one to eight a row, with their labels. One row in twenty
repeats an earlier one, and one in twenty is a near duplicate of one. Each verb is a process of its own; its time is
that of the whole process, its memory the largest resident set that the system saw. `--together` runs both at once,
where the machine has cores and memory for two.
"""

import argparse
import csv
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.data.reviews import load_reviews
from tonetune.rundir import write_json

MAX_CLAUSES = 8
REPEATED = 0.05
NEAR = 0.05
KEPT = 10_000
"""Earlier rows that repeats and near duplicates are taken from."""
PACKAGES = ("tonetune", "numpy", "scipy", "ftfy")


def write_rows(path: Path, num_rows: int, rng: np.random.Generator) -> None:
    """Write a CSV file of made rows, one at a time."""
    reviews = load_reviews()
    clauses = [clause for r in reviews for clause in re.split(r"(?<=[，。！？,!?])", r.text) if 3 <= len(clause) <= 40]
    labels = sorted({review.label for review in reviews})
    earlier: list[tuple[str, str]] = []
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for _ in range(num_rows):
            kind = rng.random() if len(earlier) == KEPT else 1.0
            text, label = earlier[rng.integers(KEPT)] if kind < REPEATED + NEAR else _row(clauses, labels, rng)
            if REPEATED <= kind < REPEATED + NEAR:
                text = f"{text}{clauses[rng.integers(len(clauses))][:2]}"
            if len(earlier) < KEPT:
                earlier.append((text, label))
            writer.writerow((text, label))


def _row(clauses: list[str], labels: list[str], rng: np.random.Generator) -> tuple[str, str]:
    chosen = rng.integers(len(clauses), size=rng.integers(1, MAX_CLAUSES + 1))
    return "".join(clauses[i] for i in chosen), labels[rng.integers(len(labels))]


def measured(*arguments: object) -> dict[str, Any]:
    """Run `tonetune ARGUMENTS --json` alone: its document, its seconds and its largest resident set in MiB."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, "-m", "tonetune", *map(str, arguments), "--json"], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        document = json.load(output)
    if process.returncode:
        raise SystemExit(f"tonetune {arguments[0]} failed: {document}")
    unit = 1 if platform.system() == "Darwin" else 1024
    return {
        "document": document,
        "wall_s": round(time.perf_counter() - began, 1),
        "peak_memory_mib": round(usage.ru_maxrss * unit / (1 << 20)),
    }


def figures(num_rows: int, *, together: bool = False) -> dict[str, Any]:
    """Make the rows, run both verbs, and say what they took and found."""
    with tempfile.TemporaryDirectory() as directory:
        path, out = Path(directory) / "rows.csv", Path(directory) / "prepared"
        write_rows(path, num_rows, np.random.default_rng(0))
        size_mib = round(path.stat().st_size / (1 << 20))
        with ThreadPoolExecutor(2 if together else 1) as verbs:
            inspecting = verbs.submit(measured, "inspect", path)
            prepared = verbs.submit(measured, "prepare", path, "--out", out).result()
            inspected = inspecting.result()
        near = json.loads((out / "data.json").read_text(encoding="utf-8"))["near_duplicates"]
    found = inspected.pop("document")
    return {
        "rows": num_rows,
        "file_mib": size_mib,
        "inspect": {**inspected, "problems": {problem["code"]: problem["count"] for problem in found["problems"]}},
        "prepare": {**prepared.pop("document"), **prepared, "near_duplicates": near},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--together", action="store_true", help="both verbs at once")
    parser.add_argument("--out", type=Path, help="also write the document here")
    arguments = parser.parse_args()
    document = {
        **figures(arguments.rows, together=arguments.together),
        "together": arguments.together,
        "command": f"python benchmarks/prepare_rows.py --rows {arguments.rows}",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }
    print(json.dumps(document, ensure_ascii=False, indent=2))
    if arguments.out:
        write_json(arguments.out, document)


if __name__ == "__main__":
    main()
