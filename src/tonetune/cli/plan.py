"""The verb that says what a run would take: plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tonetune.cli.app import Json, LabelColumns, Quiet, Set, TextColumns, Verbose, app, columns, config_overrides, show
from tonetune.cli.output import Output
from tonetune.cli.reading import reads_files

if TYPE_CHECKING:
    from tonetune.data.readers import ReadOptions


@app.command()
@reads_files
def plan(
    data: Annotated[Path | None, typer.Option("--data", help="File of labelled rows (data.train).")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Base model (model.base): its config is enough.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Config file; see train --init.")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Make one real step, on random weights.")] = False,
    text: TextColumns = [],
    label: LabelColumns = [],
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Memory, time and cost of a run, before anything is loaded."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.plan import plan

        flags = config_overrides({"data.train": data, "model.base": model, **columns(text, label)})
        document = plan(config, overrides=[*overrides, *flags], measure=measure, options=options)
        output.document(document)
        if not as_json and not quiet:
            from tonetune.cli.tables import plan_tables

            show(plan_tables(document))
