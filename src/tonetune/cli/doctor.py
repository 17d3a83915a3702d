"""The verb about this machine: doctor."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tonetune.cli.app import Json, Quiet, Verbose, app, show
from tonetune.cli.output import Output
from tonetune.errors import DeviceError

Probes = Literal["quick", "all", "none"]
PROBE_TIMES = {"quick": "half a minute", "all": "minutes"}


@app.command()
def doctor(
    probe: Annotated[Probes, typer.Option("--probe", help="What to measure: quick takes half a minute.")] = "quick",
    report: Annotated[Path | None, typer.Option("--report", help="Write a file for a bug report.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """This machine: cards, torch build, what works, what to do."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.device.doctor import diagnose

        if probe != "none":
            output.reporter().say(f"measuring what training relies on: {PROBE_TIMES[probe]}; --probe none only looks")
        diagnosis = diagnose(probe)
        if report is not None:
            from tonetune.rundir import write_json

            write_json(report, diagnosis.report())
        output.document(diagnosis.as_dict())
        if not as_json and not quiet:
            from tonetune.cli.tables import doctor_tables

            show(doctor_tables(diagnosis.as_dict()))
        if report is not None:
            output.reporter().say(f"report, without names and paths, written to {report}")
        if diagnosis.verdict == "unable":
            raise SystemExit(DeviceError.exit_code)
