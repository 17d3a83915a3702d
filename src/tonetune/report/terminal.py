"""The tables of a run for a terminal: what was adapted, and the results."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from tonetune.report.adapted import adapted_rows
from tonetune.report.results import results, shown_metrics


def adapted_table(document: Mapping[str, Any]) -> Table:
    """The kinds of decoder layers of a document adapters.json, with what is adapted in each."""
    title = f"{len(document['layers']):,} linear layers adapted, width in → width out"
    table = Table(title=title, title_justify="left", title_style="dim")
    table.add_column("layers", max_width=22)
    table.add_column("adapted")
    table.add_column("parameters", justify="right", no_wrap=True)
    for row in adapted_rows(document):
        table.add_row(row.layers, "\n".join([row.adapted, *row.remarks]), row.parameters)
    return table


def results_table(baselines: Mapping[str, Any], tuned: Mapping[str, Any]) -> Table:
    """The first two metrics with 95 % intervals of every baseline and of the tuned model, which stands out."""
    table = Table(title=f"{tuned['n']:,} test texts, with 95 % intervals", title_justify="left", title_style="dim")
    table.add_column("method")
    metrics = shown_metrics(tuned)[:2]
    for _, title in metrics:
        table.add_column(title, justify="right", no_wrap=True)
    for result in results(baselines, tuned):
        style = "bold" if result.key == "tuned" else None
        table.add_row(result.name, *(result.cell(metric) for metric, _ in metrics), style=style)
    if baselines["zero_shot_note"]:
        table.caption = baselines["zero_shot_note"]
    return table
