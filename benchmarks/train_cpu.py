"""Texts per second of training on a CPU: tonetune beside a peer script, in turn, on the same rows and base.

    python benchmarks/train_cpu.py --peer hf_trainer.py [--rows 512] [--rounds 2] [--out FILE.json]

The peer is a script around transformers' Trainer and PEFT with the options of `peer_command`. It prints a line
`RESULT {"wall": …, "samples_s": …, "test_acc": …}`. Both train the demo model for one epoch on the first reviews by the
hash of their text, with the same batch, rank, layers, dropout and schedule. A rate is texts over seconds of training
alone: loading, baselines and evaluation are left out on both sides, the first step is not. Each run is a process of
its own.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tonetune.data.duplicates import drop_repeats, first_by_hash
from tonetune.data.example import Example
from tonetune.data.reviews import load_reviews
from tonetune.model.source import find_base
from tonetune.rundir import RunDir, read_json, write_json, write_jsonl

HELD_OUT_ROWS = 32  # validation rows, and as many test rows: scored after training, outside the time measured
SETTINGS = {"max_length": 128, "batch": 32, "rank": 8, "dropout": 0.05, "learning_rate": 2e-4, "seed": 42}
PACKAGES = ("tonetune", "torch", "transformers", "peft", "numpy")
OF_A_LATER_STEP = 10**6  # validation after this step only, so after the last one

PEER_IN_FLOAT32 = """
import runpy, sys, torch, transformers
auto = transformers.AutoModelForSequenceClassification
load = auto.from_pretrained
auto.from_pretrained = lambda *args, **kwargs: load(*args, **{**kwargs, "dtype": torch.float32})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Files:
    """Rows for both, and a place for runs."""

    train: Path
    validation: Path
    test: Path
    runs: Path


def write_rows(directory: Path, num_rows: int) -> Files:
    """The first reviews by hash: `num_rows` to train on, and the next ones to evaluate on."""
    distinct, _ = drop_repeats([review for review in load_reviews() if review.text])
    rows = first_by_hash(distinct, num_rows + 2 * HELD_OUT_ROWS)
    files = Files(
        directory / "train.jsonl", directory / "validation.jsonl", directory / "test.jsonl", directory / "runs"
    )
    ends = (num_rows, num_rows + HELD_OUT_ROWS, num_rows + 2 * HELD_OUT_ROWS)
    for path, begin, end in zip((files.train, files.validation, files.test), (0, *ends), ends, strict=False):
        write_jsonl(path, [_row(example) for example in rows[begin:end]])
    return files


def _row(example: Example) -> dict[str, Any]:
    return {"text": example.text, "label": example.label}


def ours_command(base: Path, files: Files) -> list[str]:
    keys = {
        "model.base": str(base),
        "data.train": str(files.train),
        "data.validation": str(files.validation),
        "data.test": str(files.test),
        "data.max_length": SETTINGS["max_length"],
        "lora.rank": SETTINGS["rank"],
        "lora.alpha": 2 * SETTINGS["rank"],
        "lora.dropout": SETTINGS["dropout"],
        "lora.targets": "attention",
        "train.epochs": 1,
        "train.batch": SETTINGS["batch"],
        "train.learning_rate": SETTINGS["learning_rate"],
        "train.seed": SETTINGS["seed"],
        "train.evaluate_every": OF_A_LATER_STEP,
        "run.dir": str(files.runs),
    }
    overrides = [part for key, value in keys.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    return [sys.executable, "-m", "tonetune", "train", "--json", "--quiet", *overrides]


def peer_command(peer: Path, base: Path, files: Files, *, float32: bool) -> list[str]:
    options = {
        "--model": base,
        "--train": files.train,
        "--test": files.test,
        "--max-length": SETTINGS["max_length"],
        "--bs": SETTINGS["batch"],
        "--epochs": 1,
        "--r": SETTINGS["rank"],
        "--targets": "q_proj,v_proj,o_proj",
        "--dropout": SETTINGS["dropout"],
        "--lr": SETTINGS["learning_rate"],
        "--seed": SETTINGS["seed"],
    }
    program = ["-c", PEER_IN_FLOAT32, str(peer)] if float32 else [str(peer)]
    return [sys.executable, *program, *(str(part) for option in options.items() for part in option)]


def output_of(command: list[str]) -> str:
    """Standard output of a program; what it says on stderr is shown only where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command[:4])} … ended with {result.returncode}:\n{result.stderr[-4000:]}{result.stdout}")
    return result.stdout


def run_ours(base: Path, files: Files) -> dict[str, Any]:
    """One training run of tonetune: its rate, and what its env.json says."""
    document = json.loads(output_of(ours_command(base, files)))
    environment = read_json(RunDir.open(document["run"]).env)
    return {
        "texts_per_s": document["train"]["samples_per_s"],
        "test_accuracy": document["tuned"]["accuracy"],
        "dtype": environment["placement"]["dtype"]["value"].removeprefix("torch."),
        "threads": environment["machine"]["threads"],
    }


def run_peer(peer: Path, base: Path, files: Files, *, num_rows: int, float32: bool) -> dict[str, Any]:
    """One training run of the peer, from its line RESULT; rows over `wall` is `samples_s` before it was rounded."""
    lines = output_of(peer_command(peer, base, files, float32=float32)).splitlines()
    (result,) = (json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT "))
    return {
        "texts_per_s": num_rows / result["wall"],
        "test_accuracy": result["test_acc"],
        "samples_s": result["samples_s"],
    }


def measure(peer: Path, *, num_rows: int, rounds: int, float32: bool) -> dict[str, Any]:
    """Both in turn, `rounds` times; the document that is printed and written."""
    base = find_base("demo").directory
    with tempfile.TemporaryDirectory(prefix="train_cpu-") as directory:
        files = write_rows(Path(directory), num_rows)
        laps = []
        for lap in range(1, rounds + 1):
            ours = run_ours(base, files)
            theirs = run_peer(peer, base, files, num_rows=num_rows, float32=float32)
            laps.append({"ours": ours, "peer": theirs, "ratio": ours["texts_per_s"] / theirs["texts_per_s"]})
            print(f"round {lap}: {laps[-1]['ratio']:.2f}", file=sys.stderr)
    medians = {who: statistics.median(lap[who]["texts_per_s"] for lap in laps) for who in ("ours", "peer")}
    return {
        "rounds": laps,
        "median_texts_per_s": medians,
        "ratio_of_medians": medians["ours"] / medians["peer"],
        "dtype": {"ours": laps[0]["ours"]["dtype"], "peer": "float32" if float32 else "bfloat16"},
        "threads": laps[0]["ours"]["threads"],
        "rows": num_rows,
        "settings": SETTINGS,
        "base": "demo",
        "peer": {"name": peer.name, "sha256": hashlib.sha256(peer.read_bytes()).hexdigest()},
        "command": _command_as_typed(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": {"system": platform.system(), "processor": _processor(), "cpus": os.cpu_count()},
    }


def _command_as_typed() -> str:
    """The command line, with names in place of paths that lead elsewhere."""
    return " ".join(["python", *(Path(word).name if word.startswith((os.sep, "..")) else word for word in sys.argv)])


def _processor() -> str:
    """The processor's model, where Linux says it; else its architecture."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(document: dict[str, Any]) -> str:
    """The rates as text, a line for each."""
    dtype = document["dtype"]
    lines = [f"{'round':<8}{'tonetune ' + dtype['ours']:>20}{'peer ' + dtype['peer']:>20}{'ratio':>8}"]
    for number, lap in enumerate(document["rounds"], start=1):
        ours, theirs = lap["ours"]["texts_per_s"], lap["peer"]["texts_per_s"]
        lines.append(f"{number:<8}{ours:>20.2f}{theirs:>20.2f}{lap['ratio']:>8.2f}")
    medians = document["median_texts_per_s"]
    lines.append(f"{'median':<8}{medians['ours']:>20.2f}{medians['peer']:>20.2f}{document['ratio_of_medians']:>8.2f}")
    return "\n".join([*lines, f"texts/s of training, {document['rows']} rows, {document['threads']} threads"])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True, help="the peer script")
    parser.add_argument("--peer-float32", action="store_true", help="load the peer's model in float32, not bfloat16")
    parser.add_argument("--rows", type=int, default=512, help="training rows")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each")
    parser.add_argument("--out", type=Path, help="write the document here as JSON")
    options = parser.parse_args()
    document = measure(
        options.peer.resolve(), num_rows=options.rows, rounds=options.rounds, float32=options.peer_float32
    )
    print(table(document))
    if options.out:
        write_json(options.out, document)


if __name__ == "__main__":
    main()
