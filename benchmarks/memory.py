"""Planned against measured peak memory of a training step, over models, batches, lengths and checkpointing.

Usage: python benchmarks/memory.py [--shapes gemma-3-270m,gemma-2-2b,gemma-4-E2B] [--texts 8,32] [--lengths 64,256]
           [--out FILE.json]

Bodies have full size and random weights, LoRA of rank 8 on q, v and o, a head of four labels, the family's own kernel
and the format of `model.dtype: auto`. A micro-batch of so many texts of so many tokens is planned from shapes and then
trained, each in a process of its own. Memory is what torch allocates on a GPU, and on a CPU the peak of what is
resident less that before, without the plan's part for libraries, which are loaded by then. Prints the table of
docs/memory.md.
"""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from full_size import LABELS, SHAPES

from tonetune.api.setup import versions
from tonetune.device.choose import call_tokens, choose_device, choose_dtype, dtype_name
from tonetune.device.memory import library_bytes
from tonetune.errors import TrainingError
from tonetune.model.blueprint import Blueprint
from tonetune.model.families import family_of
from tonetune.training.dry_run import DryRun
from tonetune.training.trial import try_step

MIB = 2.0**20


def blueprint_of(shape: str, dtype: torch.dtype) -> Blueprint:
    from transformers import AutoConfig

    values = dict(SHAPES[shape])
    family = family_of(values, where=shape)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    lora: dict[str, Any] = {"targets": "attention", "rank": 8, "alpha": 16.0, "dropout": 0.0, "variant": "lora"}
    return Blueprint(config, family, dtype, family.kernel, num_labels=LABELS, **lora)


def compare(shape: str, texts: int, tokens: int, checkpointing: bool) -> dict[str, Any]:
    """Plan and train one micro-batch in this process."""
    device = choose_device().value
    dtype = choose_dtype("auto", device, {}).value
    blueprint = blueprint_of(shape, dtype)
    footprint = DryRun(blueprint, device, longest=tokens).footprint(texts * tokens, checkpointing=checkpointing)
    planned_mib = (footprint.total - library_bytes(device)) / MIB
    row: dict[str, Any] = {"shape": shape, "texts": texts, "tokens": tokens, "checkpointing": checkpointing}
    row |= {"device": str(device), "dtype": dtype_name(dtype), "planned_mib": round(planned_mib)}
    try:
        trial = try_step(
            blueprint,
            np.full(texts, tokens, dtype=np.int64),
            device,
            budget_tokens=texts * tokens,
            call_tokens=call_tokens(device),
            checkpointing=checkpointing,
            rng=np.random.default_rng(0),
        )
    except TrainingError as error:
        return row | {"error": error.what}
    measured = trial.peak_memory_mib
    return row | {"measured_mib": round(measured), "off": planned_mib / measured - 1.0, "step_s": trial.step_s}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as the Markdown table of docs/memory.md."""
    lines = [
        "| model | texts × tokens | checkpointing | planned, MiB | measured, MiB | off |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        way = "yes" if row["checkpointing"] else "no"
        off = f"{row['off']:+.1%}" if "off" in row else row["error"]
        cells = [row["shape"], f"{row['texts']} × {row['tokens']}", way, f"{row['planned_mib']:,}"]
        lines.append(f"| {' | '.join(cells)} | {row.get('measured_mib', 0):,} | {off} |")
    return "\n".join(lines)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--shapes", default="gemma-3-270m,gemma-2-2b,gemma-4-E2B")
    parser.add_argument("--texts", type=numbers, default=[8, 32])
    parser.add_argument("--lengths", type=numbers, default=[64, 256])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compare(*options.one)))
        return
    rows = []
    for case in itertools.product(options.shapes.split(","), options.texts, options.lengths, (False, True)):
        command = [sys.executable, __file__, "--one", json.dumps(case)]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(result.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr)
    print(table(rows))
    if options.out:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        options.out.write_text(json.dumps({"versions": versions(), "card": card, "results": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
