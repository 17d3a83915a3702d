"""The verb that looks after runs."""

from pathlib import Path
from typing import Annotated

import typer

from tonetune.cli.app import Json, Quiet, Verbose, app, show
from tonetune.cli.output import Output


@app.command()
def runs(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Directory that holds the runs, or a run.")] = Path(
        "runs"
    ),
    clean: Annotated[bool, typer.Option("--clean", help="Remove checkpoints that no run needs any more.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --clean: only say what would be removed.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The runs of a directory: status, size, best metric, age."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.runs import list_runs

        document = list_runs(directory, clean=clean, dry_run=dry_run, say=output.reporter().say)
        output.document(document)
        if not as_json and not quiet:
            from tonetune.cli.tables import run_tables

            show(run_tables(document))
