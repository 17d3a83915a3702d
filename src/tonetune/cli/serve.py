"""The verb that answers over HTTP: serve."""

from pathlib import Path
from typing import Annotated

import typer

from tonetune.cli.app import Json, Quiet, Verbose, app
from tonetune.cli.output import Output


@app.command()
def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN | NAME=RUN…", help="Run directories or bundles.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0 is any free one.")] = 8000,
    api_keys: Annotated[
        Path | None, typer.Option("--api-keys", help="File of API keys, one a line, instead of TONETUNE_API_KEYS.")
    ] = None,
    limits: Annotated[
        list[str], typer.Option("--limit", metavar="NAME=NUMBER", help="Change a limit: see docs/serve.md; repeatable.")
    ] = [],
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write texts and labels into the log.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Serve a run whose base was not proven.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """HTTP service and page over tuned models, until it is told to stop."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.serve.limits import Limits
        from tonetune.serve.server import limit_caches, log_to_stderr, named_runs, read_keys, require_extra, serve

        require_extra()
        limit_caches()
        named, keys, within = named_runs(runs), read_keys(api_keys), Limits().changed(limits)
        from tonetune.api.loaded import load_proven

        classifiers = {name: load_proven(path, force=force) for name, path in named.items()}
        log_to_stderr(quiet=quiet)
        say = output.reporter().say
        serve(classifiers, host=host, port=port, keys=keys, limits=within, log_texts=log_texts, say=say)
