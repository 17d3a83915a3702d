"""From the rounds of benchmarks/active_learning.py to a picture, and to the table of a page.

    python benchmarks/active_learning_figure.py FILE.jsonl --png docs/active-learning.png --page docs/active-learning.md

Only whole curves count: the seeds of a set in which every strategy has all its rounds. The table stands in the page
between the comments `table` and `/table`, and is written anew, below the picture.
"""

import argparse
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.rundir import read_jsonl

TARGET_LABELS = 1000
BEGIN, END = "<!-- table -->", "<!-- /table -->"

Accuracies = dict[str, dict[int, list[float]]]
"""By strategy and seed, one for each of the numbers of labels."""


def whole_curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[int], Accuracies]]:
    """For each set the numbers of labels and the curves of the seeds that every strategy has finished, random first."""
    found: dict[str, dict[str, dict[int, dict[int, float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for row in rows:
        found[row["set"]][row["strategy"]][row["seed"]][row["labels"]] = row["accuracy"]
    result = {}
    for name, strategies in found.items():
        sizes = sorted({labels for seeds in strategies.values() for curve in seeds.values() for labels in curve})
        seeds = set.intersection(*(
            {seed for seed, curve in seeds.items() if len(curve) == len(sizes)} for seeds in strategies.values()
        ))  # fmt: skip
        if seeds:
            curves = {
                strategy: {seed: [by_seed[seed][size] for size in sizes] for seed in sorted(seeds)}
                for strategy, by_seed in sorted(strategies.items(), key=lambda item: (item[0] != "random", item[0]))
            }
            result[name] = sizes, curves
    return result


def labels_needed(sizes: Sequence[int], accuracies: Sequence[float], target: float) -> float | None:
    """Labels at which the straight lines between the points first reach `target`; None where they never do."""
    for i, accuracy in enumerate(accuracies):
        if accuracy >= target:
            if i == 0:
                return float(sizes[0])
            share = (target - accuracies[i - 1]) / (accuracy - accuracies[i - 1])
            return float(sizes[i - 1] + share * (sizes[i] - sizes[i - 1]))
    return None


def summary(sizes: Sequence[int], curves: Accuracies) -> dict[str, Any]:
    """Of each strategy the accuracies, shape (seeds, sizes), and the labels that each seed needs for the target.

    The target is the mean accuracy of random with `TARGET_LABELS`, one for all seeds.
    """
    random = np.mean([*curves["random"].values()], axis=0)
    target = float(np.interp(TARGET_LABELS, sizes, random))
    strategies = {
        name: {
            "accuracy": np.array([*by_seed.values()]),
            "needed": [labels_needed(sizes, curve, target) for curve in by_seed.values()],
        }
        for name, by_seed in curves.items()
    }
    return {"labels": list(sizes), "target": target, "strategies": strategies}


def spread(values: Sequence[float]) -> float:
    """The standard deviation between seeds; 0 of one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def table(name: str, document: Mapping[str, Any]) -> list[str]:
    """The table of a set, in Markdown."""
    sizes, strategies = document["labels"], document["strategies"]
    shown = [i for i, size in enumerate(sizes) if i % 2 == 0 or size == sizes[-1]]
    seeds = len(strategies["random"]["needed"])
    goal = f"labels for {document['target']:.3f}"
    lines = [
        f"**{name}**, {seeds} seed{'s' if seeds > 1 else ''}; random reaches {document['target']:.3f} with "
        f"{TARGET_LABELS:,} labels.",
        "",
        f"| strategy | {' | '.join(f'{sizes[i]:,}' for i in shown)} | {goal} |",
        f"|{'---|' * (len(shown) + 2)}",
    ]
    for strategy, found in strategies.items():
        means = found["accuracy"].mean(axis=0)
        cells = [f"{means[i]:.3f} ± {spread(found['accuracy'][:, i]):.3f}" for i in shown]
        lines.append(f"| `{strategy}` | {' | '.join(cells)} | {needed_cell(found['needed'], sizes[-1])} |")
    return lines


def needed_cell(needed: Sequence[float | None], most: int) -> str:
    """Mean and spread of the labels needed; where a seed never got there, how many did and their own figures."""
    reached = [labels for labels in needed if labels is not None]
    if len(reached) < len(needed):
        figures = f" ({', '.join(f'{labels:,.0f}' for labels in reached)})" if reached else ""
        return f"over {most:,} in {len(needed) - len(reached)} of {len(needed)} seeds{figures}"
    return f"{np.mean(reached):,.0f} ± {spread(reached):,.0f}"


def draw(path: Path, documents: Mapping[str, Mapping[str, Any]]) -> None:
    """Accuracy against labels, a panel for each set: a line for each strategy, and a band of one deviation."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(documents), figsize=(5.2 * len(documents), 4), layout="constrained", squeeze=False
    )
    for axes, (name, document) in zip(panels[0], documents.items(), strict=True):
        for strategy, found in document["strategies"].items():
            mean = found["accuracy"].mean(axis=0)
            sd = np.array([spread(column) for column in found["accuracy"].T])
            axes.plot(document["labels"], mean, marker="o", markersize=4, label=strategy)
            axes.fill_between(document["labels"], mean - sd, mean + sd, alpha=0.15)
        axes.axhline(document["target"], color="grey", linewidth=0.8, linestyle="--")
        axes.set(title=name, xlabel="labels", ylabel="accuracy on test rows")
        axes.legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def with_tables(page: str, documents: Mapping[str, Mapping[str, Any]], *, picture: str | None = None) -> str:
    """The page with picture and tables between its two comments. Raises ValueError for a page without them."""
    shown = f"![Accuracy against labels, by strategy]({picture})\n\n" if picture else ""
    tables = shown + "\n\n".join("\n".join(table(name, document)) for name, document in documents.items())
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{tables}\n\n{END}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    curves = whole_curves(read_jsonl(arguments.rounds))
    if not curves:
        raise SystemExit(f"{arguments.rounds}: no seed has all its rounds")
    documents = {name: summary(*found) for name, found in curves.items()}
    for name, document in documents.items():
        print("\n".join(table(name, document)), end="\n\n")
    if arguments.png:
        draw(arguments.png, documents)
    if arguments.page:
        picture = os.path.relpath(arguments.png, arguments.page.parent) if arguments.png else None
        page = with_tables(arguments.page.read_text("utf-8"), documents, picture=picture)
        arguments.page.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
