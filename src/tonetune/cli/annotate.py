"""The verbs of `tonetune annotate`: weak labels, what to label next, the loop of both, agreement, doubtful labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tonetune.cli.app import (
    Json,
    LabelColumns,
    Quiet,
    Set,
    TextColumns,
    Verbose,
    app,
    columns,
    config_overrides,
    show,
)
from tonetune.cli.output import Output
from tonetune.cli.reading import reads_files
from tonetune.errors import UsageError

if TYPE_CHECKING:
    from tonetune.data.readers import ReadOptions

annotate = typer.Typer(
    help="Labels from rules and people: weak labels, what to label next, agreement, doubtful labels.",
    rich_markup_mode=None,
)
app.add_typer(annotate, name="annotate")

Texts = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of texts.")]
Strategy = Annotated[str, typer.Option("--strategy", help="entropy, margin, diverse or random.")]
Count = Annotated[int, typer.Option("--count", min=1, help="Texts to ask for.")]
Config = Annotated[Path | None, typer.Option("--config", help="Config file.")]


@annotate.command()
@reads_files
def weak(
    files: Texts,
    rules: Annotated[Path, typer.Option("--rules", help="YAML file of labelling functions.")],
    to: Annotated[Path, typer.Option("--to", help="Write every row here, a .jsonl file.")],
    threshold: Annotated[float, typer.Option("--threshold", min=0.0, max=1.0, help="No label below this.")] = 0.6,
    text: TextColumns = [],
    config: Config = None,
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Labels with probabilities from lexicons, regular expressions and a zero-shot model."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        _require_ending(to, ".jsonl")
        from tonetune.api.annotate import weak
        from tonetune.cli.tables import weak_tables
        from tonetune.config import load_config

        settings = load_config(config, overrides=overrides)
        document, rows = weak(
            files,
            rules=rules,
            threshold=threshold,
            text=text or "auto",
            options=options,
            config=settings,
            reporter=output.reporter(),
        )
        _finish(output, document, rows, to, weak_tables(document))


@annotate.command(name="next")
@reads_files
def next_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, or an adapter directory of one.")],
    files: Texts,
    to: Annotated[Path, typer.Option("--to", help="Write .json for Label Studio or .jsonl for doccano.")],
    strategy: Strategy = "diverse",
    count: Count = 100,
    asked: Annotated[list[Path], typer.Option("--asked", help="Texts asked for before; repeatable.")] = [],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what is random in a strategy.")] = 42,
    text: TextColumns = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """The texts whose labels would teach the model most."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        _require_ending(to, ".json", ".jsonl")
        import numpy as np

        from tonetune.api.annotate import ask, write_questions

        rows = ask(
            run,
            files,
            strategy=strategy,
            count=count,
            rng=np.random.default_rng(seed),
            asked=asked,
            text=text or "auto",
            options=options,
            reporter=output.reporter(),
        )
        write_questions(to, rows)
        output.document({"rows": len(rows), "path": str(to)})
        output.reporter().say(f"{len(rows):,} rows to label written to {to}")


@annotate.command()
def loop(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the rounds.")],
    pool: Annotated[list[Path], typer.Option("--pool", help="Texts to choose from; repeatable.")],
    answers: Annotated[list[Path], typer.Option("--answers", help="Labelled rows to add; repeatable.")] = [],
    strategy: Strategy = "diverse",
    count: Count = 100,
    text: TextColumns = [],
    label: LabelColumns = [],
    config: Config = None,
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """One round: add the answers, train, and ask for the next texts."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.config import load_config
        from tonetune.loop import Loop

        settings = load_config(config, overrides=[*overrides, *config_overrides(columns(text, label))])
        done = Loop(directory).step(
            answers, config=settings, pool=pool, strategy=strategy, count=count, reporter=output.reporter()
        )
        output.document(done)
        output.reporter().say(
            f"round {done['round']}: trained on {done['labelled']:,} rows; {done['rows']:,} to label in {done['path']}"
        )


@annotate.command()
def agree(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="One file per annotator, or exports.")],
    to: Annotated[Path | None, typer.Option("--to", help="Write one labelled row a text here, a .jsonl file.")] = None,
    adjudicated: Annotated[Path | None, typer.Option("--adjudicated", help="Labels that decide.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """How well annotators agree, where they do not, and one label a text."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        _require_ending(to, ".jsonl")
        from tonetune.api.annotate import agree
        from tonetune.cli.tables import agreement_tables

        document, rows = agree(files, adjudicated=adjudicated)
        _finish(output, document, rows, to, agreement_tables(document))


@annotate.command()
@reads_files
def noise(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…|RUN", help="Labelled rows, or one run directory.")],
    to: Annotated[Path, typer.Option("--to", help="Write the doubtful rows here, .jsonl or .csv.")],
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts of which each is judged by the others.")] = 5,
    text: TextColumns = [],
    label: LabelColumns = [],
    config: Config = None,
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Rows whose label a model disbelieves that has not seen them, the worst first."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        _require_ending(to, ".jsonl", ".csv")
        from tonetune.api.noise import noise, write_doubts
        from tonetune.cli.tables import noise_tables
        from tonetune.config import load_config
        from tonetune.data.readers import AS_FOUND

        run = files[0] if len(files) == 1 and (files[0] / "run.json").is_file() else None
        if run and (text or label or config or overrides or options != AS_FOUND):
            raise UsageError("a run has its rows", where="annotate noise", hint="leave out how to read")
        given = {} if run else {"data.train": files, **columns(text, label)}
        settings = load_config(config, overrides=[*overrides, *config_overrides(given)])
        document, rows = noise(settings, run=run, folds=folds, options=options)
        write_doubts(to, rows)
        output.document({**document, "rows": len(rows), "path": str(to)})
        if not as_json and not quiet:
            show([*noise_tables(document), f"{len(rows):,} rows written to {to}"])


def _require_ending(to: Path | None, *endings: str) -> None:
    """Raises UsageError before the work where its result could not be written."""
    if to is not None and to.suffix not in endings:
        found = to.suffix or "no ending"
        raise UsageError(f"rows are written as {' or '.join(endings)}, found {found}", where=f"--to {to}")


def _finish(output: Output, document: dict[str, Any], rows: list[dict[str, Any]], to: Path | None, parts: Any) -> None:
    """Write the rows, then print the document or what a person wants to see of it."""
    from tonetune.rundir import write_jsonl

    if to is not None:
        write_jsonl(to, rows)
    output.document(document if to is None else {**document, "rows": len(rows), "path": str(to)})
    if not output.as_json and not output.quiet:
        show([*parts, *([f"{len(rows):,} rows written to {to}"] if to else [])])
