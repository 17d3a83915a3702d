"""The verb that trains many times: sweep."""

from pathlib import Path
from typing import Annotated

import typer

from tonetune.cli.app import Json, LabelColumns, Quiet, Set, TextColumns, Verbose, app, columns, config_overrides, show
from tonetune.cli.output import Output


@app.command()
def sweep(
    out: Annotated[Path, typer.Option("--out", help="Directory of the study and its runs; the same one goes on.")],
    tries: Annotated[
        list[str], typer.Option("--try", metavar="KEY=A,B,C", help="Values of a key, or a range A..B; repeatable.")
    ] = [],
    ablation: Annotated[bool, typer.Option("--ablation", help="The config as it is, and each value alone.")] = False,
    sampler: Annotated[str | None, typer.Option("--sampler", help="grid, random or tpe.")] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Runs in all, for a sampler.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="File of labelled rows (data.train).")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Base model (model.base).")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Config file.")] = None,
    text: TextColumns = [],
    label: LabelColumns = [],
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train with keys changed: a grid, a sampler's choice, or one change at a time, to be resumed."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.sweep import sweep

        flags = config_overrides({"data.train": data, "model.base": model, **columns(text, label)})
        document = sweep(
            config,
            out=out,
            tries=tries,
            overrides=[*overrides, *flags],
            sampler=sampler,
            trials=trials,
            ablation=ablation,
            reporter=output.reporter(),
        )
        output.document(document)
        if not as_json and not quiet:
            from tonetune.cli.tables import sweep_tables

            show(sweep_tables(document))
