"""The verbs about results that are there: audit."""

from pathlib import Path
from typing import Annotated

import typer

from tonetune.cli.app import Json, Quiet, Verbose, app
from tonetune.cli.output import Output
from tonetune.errors import GateError


@app.command()
def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.json", help="Reported numbers, as evaluate --json prints them.")
    ],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Can these reported numbers be true together? Ends with exit code 7 where they cannot."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.audit import IMPOSSIBLE, audit

        document = audit(file)
        output.document(document)
        for finding in document["findings"]:
            output.reporter().say(f"impossible: {finding['what']}")
        if document["verdict"] == IMPOSSIBLE:
            raise SystemExit(GateError.exit_code)
        output.reporter().say("no contradiction found")
