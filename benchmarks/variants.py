"""Accuracy and speed of LoRA's variants, targets and ranks on one labelled file: a training run of each, in turn.

    python benchmarks/variants.py --data FILE [--base demo] [--set key=value]… [--seeds 1] [--out FILE.json] RUN…

A RUN is variant:targets:rank, such as lora:attention:8, lora:all-linear:16, dora:attention:8 or pissa:q_proj,v_proj:8;
alpha is twice the rank. Each is a process of its own, `tonetune train`, with the same split and schedule. `--set`
takes any key of the config; seeds count up from 42. A rate is texts over seconds of training alone: loading, baselines
and evaluation are left out, and the seconds of the first step stand beside it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tonetune.rundir import RunDir, read_json, write_json

COLUMNS = ("run", "seed", "accuracy", "95 %", "macro-F1", "texts/s", "first step s", "peak MiB", "trained")
LINE = "{:<28}{:>5}{:>10}{:>16}{:>10}{:>10}{:>14}{:>10}{:>12}"


def settings_of(run: str) -> dict[str, Any]:
    """The config keys that a run's name stands for."""
    variant, targets, rank = run.split(":")
    named = targets in ("attention", "all-linear")
    return {
        "lora.variant": variant,
        "lora.targets": targets if named else targets.split(","),
        "lora.rank": int(rank),
        "lora.alpha": 2 * int(rank),
    }


def train(run: str, seed: int, options: argparse.Namespace, runs: Path) -> dict[str, Any]:
    """One run of `tonetune train`; what it measured."""
    keys = {"train.seed": seed, "run.dir": str(runs), **settings_of(run)}
    overrides = [*options.set, *(f"{key}={json.dumps(value)}" for key, value in keys.items())]
    command = [sys.executable, "-m", "tonetune", "train", "--json", "--quiet", "--model", options.base]
    command += ["--data", str(options.data), *(part for override in overrides for part in ("--set", override))]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{run} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
    document = json.loads(done.stdout)
    directory = RunDir.open(document["run"])
    return {
        "run": run,
        "seed": seed,
        **{key: document["tuned"][key] for key in ("accuracy", "accuracy_ci95", "macro_f1", "n")},
        "tfidf_accuracy": document["baselines"]["tfidf"]["accuracy"],
        "best_validation": read_json(directory.best),
        "train": document["train"],
        "trainable": read_json(directory.adapters)["trainable"],
        "environment": read_json(directory.env),
    }


def line(row: dict[str, Any]) -> str:
    """A run as a line of the table."""
    low, high = row["accuracy_ci95"]
    figures = row["train"]
    return LINE.format(
        row["run"],
        row["seed"],
        f"{row['accuracy']:.3f}",
        f"{low:.3f}–{high:.3f}",
        f"{row['macro_f1']:.3f}",
        f"{figures['samples_per_s']:.1f}",
        f"{figures['warmup_s']:.1f}",
        f"{figures['peak_memory_mib']:.0f}",
        f"{row['trainable']:,}",
    )


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """The mean accuracy of each run over its seeds, and how far apart they are."""
    by_run: dict[str, list[float]] = {}
    for row in rows:
        by_run.setdefault(row["run"], []).append(row["accuracy"])
    return [
        f"{run:<28}mean accuracy {statistics.mean(found):.3f}, between seeds {min(found):.3f} to {max(found):.3f}"
        for run, found in by_run.items()
        if len(found) > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("run", nargs="+", metavar="RUN", help="variant:targets:rank")
    parser.add_argument("--data", type=Path, required=True, help="labelled file, split as `tonetune train` splits it")
    parser.add_argument("--base", default="demo", help="base model, as model.base takes it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a config key for every run")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each, with seeds from 42 upwards")
    parser.add_argument("--out", type=Path, help="write the document here as JSON")
    options = parser.parse_args()
    rows = []
    print(LINE.format(*COLUMNS))
    with tempfile.TemporaryDirectory(prefix="variants-") as runs:
        for seed in range(42, 42 + options.seeds):
            for run in options.run:
                rows.append(train(run, seed, options, Path(runs)))
                print(line(rows[-1]), flush=True)
                if options.out:
                    settings = {"base": Path(options.base).name, "data": options.data.name, "set": options.set}
                    write_json(options.out, {"settings": settings, "runs": rows})
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
