"""Accuracy against labels bought, for each strategy of `annotate next`: a simulation on rows whose labels are known.

    python benchmarks/active_learning.py --train train.csv --test test.csv [--model BASE] [--seeds 3] [--pool 3000]
        [--round 200] [--rounds 7] [--strategies random,entropy,margin,diverse] [--set KEY=VALUE]… [--out FILE.json]

For each seed the pool and the first rows are drawn at random, the same for every strategy. A round trains from the base
on all rows bought so far, scores the test rows, and buys the next by the strategy. 15 % of the bought rows are held out
for validation. The document has the accuracy of every round with mean and standard deviation over seeds, and
the labels that each strategy needs to reach what random reaches with 1,000. With matplotlib, FILE.png beside FILE.json
is the picture.
"""

import argparse
import json
import platform
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tonetune
from tonetune.annotate.next import STRATEGIES
from tonetune.api.annotate import choose_rows
from tonetune.data.duplicates import drop_repeats
from tonetune.data.example import Example
from tonetune.data.split_files import read_labelled
from tonetune.rundir import write_json, write_jsonl

TARGET_LABELS = 1000
PACKAGES = ("tonetune", "torch", "transformers", "peft", "numpy")


def read_distinct(path: Path) -> list[Example]:
    kept, _ = drop_repeats([e for e in read_labelled([path], text="auto", label="auto") if e.labels and e.text.strip()])
    return kept


def simulate(
    pool: Sequence[Example],
    test: Path,
    *,
    strategy: str,
    seed: int,
    sizes: Sequence[int],
    overrides: Sequence[str],
) -> list[float]:
    """Test accuracy with each of the `sizes` of labelled rows, bought by `strategy`; `seed` draws the first rows."""
    rng = np.random.default_rng([seed, sorted(STRATEGIES).index(strategy)])
    bought = [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))[: sizes[0]]]
    accuracies = []
    with tempfile.TemporaryDirectory() as directory:
        for number, next_size in enumerate([*sizes[1:], 0]):
            labelled = Path(directory) / f"labelled-{number}.jsonl"
            write_jsonl(labelled, ({"text": e.text, "label": e.label, "origin": e.origin} for e in bought))
            rows = {"train": str(labelled), "test": str(test), "text": "text", "label": "label"}
            run = tonetune.train(
                {"data": rows, "run": {"dir": directory}},
                overrides=[*overrides, f"train.seed={seed}"],
                allow_leaks=True,
            )
            accuracies.append(run.summary["tuned"]["accuracy"])
            if next_size:
                have = {e.origin for e in bought}
                rest = {e.origin: e for e in pool if e.origin not in have}
                chosen = choose_rows(
                    tonetune.load(run.path),
                    list(rest.values()),
                    strategy=strategy,
                    count=next_size - len(bought),
                    rng=rng,
                )
                bought += [rest[row["origin"]] for row in chosen]
    return accuracies


def labels_needed(sizes: Sequence[int], accuracies: Sequence[float], target: float) -> float | None:
    """Labels at which the straight lines between the points first reach `target`; None where they never do."""
    for i, accuracy in enumerate(accuracies):
        if accuracy >= target:
            if i == 0:
                return float(sizes[0])
            share = (target - accuracies[i - 1]) / (accuracy - accuracies[i - 1])
            return float(sizes[i - 1] + share * (sizes[i] - sizes[i - 1]))
    return None


def summary(sizes: Sequence[int], curves: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Mean and spread of each strategy's curves, one curve a seed, and the labels it needs to match random."""
    means = {name: np.mean(runs, axis=0).tolist() for name, runs in curves.items()}
    target = float(np.interp(TARGET_LABELS, sizes, means["random"])) if "random" in means else None
    return {
        "labels": list(sizes),
        "target_accuracy": target,
        "strategies": {
            name: {
                "accuracy_mean": means[name],
                "accuracy_sd": np.std(runs, axis=0, ddof=1 if len(runs) > 1 else 0).tolist(),
                "accuracy_by_seed": runs,
                "labels_needed": labels_needed(sizes, means[name], target) if target is not None else None,
            }
            for name, runs in curves.items()
        },
    }


def draw(path: Path, document: dict[str, Any]) -> None:
    """Accuracy against labels, a line and a band of one standard deviation for each strategy."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4), layout="constrained")
    for name, curve in document["strategies"].items():
        mean, sd = np.array(curve["accuracy_mean"]), np.array(curve["accuracy_sd"])
        axes.plot(document["labels"], mean, marker="o", label=name)
        axes.fill_between(document["labels"], mean - sd, mean + sd, alpha=0.15)
    axes.set(xlabel="labels", ylabel="accuracy on test rows")
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--round", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--strategies", default="random,entropy,margin,diverse")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = read_distinct(arguments.train)
    sizes = [arguments.round * i for i in range(1, arguments.rounds + 1)]
    curves: dict[str, list[list[float]]] = defaultdict(list)
    for seed in range(arguments.seeds):
        drawn = np.random.default_rng([seed, 1]).permutation(len(rows))[: arguments.pool]
        pool = [rows[i] for i in sorted(drawn.tolist())]
        for strategy in arguments.strategies.split(","):
            settings = [f"model.base={json.dumps(arguments.model)}", *arguments.overrides]
            curve = simulate(pool, arguments.test, strategy=strategy, seed=seed, sizes=sizes, overrides=settings)
            curves[strategy].append(curve)
            print(json.dumps({"seed": seed, "strategy": strategy, "accuracy": curve}), flush=True)
    document = {
        **summary(sizes, dict(curves)),
        "data": arguments.train.parent.name,
        "model": Path(arguments.model).name,
        "pool": arguments.pool,
        "settings": arguments.overrides,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }
    print(json.dumps(document, indent=2))
    if arguments.out:
        write_json(arguments.out, document)
        draw(arguments.out.with_suffix(".png"), document)


if __name__ == "__main__":
    main()
