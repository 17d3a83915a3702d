"""The verbs about results that are there: compare, report, audit."""

from pathlib import Path
from typing import Annotated

import typer

from tonetune.cli.app import Json, Quiet, Verbose, app, show
from tonetune.cli.output import Output
from tonetune.errors import GateError


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="Another, tested on the same rows.")],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Is the second run better than the first by more than noise, and what differs between them?"""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.compare import compare

        document = compare(first, second)
        output.document(document)
        if not as_json and not quiet:
            from tonetune.cli.tables import comparison_tables

            show(comparison_tables(document))


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write report.html of a run anew from its files."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.report.html import write_report
        from tonetune.rundir import RunDir

        report = write_report(RunDir.open(run))
        output.document({"path": str(report.path), "missing": list(report.missing)})
        for gap in report.missing:
            output.reporter().say(f"missing: {gap}")
        output.reporter().say(f"written: {report.path}")


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
