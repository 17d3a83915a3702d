"""The verbs: each reads its flags, calls the Python interface, and prints. Heavy modules load inside the verbs."""

import io
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tonetune import __version__
from tonetune.cli.output import Output
from tonetune.cli.reading import reads_files
from tonetune.errors import UsageError

if TYPE_CHECKING:
    from tonetune.data.inspect import Inspection
    from tonetune.data.readers import ReadOptions

app = typer.Typer(
    name="tonetune",
    help="Labelled text and a Gemma-family model in, a tested emotion or sentiment classifier out.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show the traceback of an error.")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a config key; repeatable.")]
TextColumns = Annotated[
    list[str], typer.Option("--text", metavar="COLUMN", help="Text column, a name or number; repeat for several turns.")
]
LabelColumns = Annotated[
    list[str], typer.Option("--label", metavar="COLUMN", help="Label column, a name or number; repeat for one a label.")
]
AllowLeaks = Annotated[bool, typer.Option("--allow-leaks", help="Accept the same text in two given splits.")]
Labels = Annotated[
    str | None, typer.Option("--labels", metavar="A,B,C", help="Labels of an adapter that PEFT saved without names.")
]
Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of labelled rows.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, or an adapter directory.")]


WrongUsage: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it cannot read: click's own UsageError, or typer's copy of it."""


def run() -> None:
    """Run the program; a command line that cannot be read is an error like any other."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as JSON is, whatever the locale
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # when PEFT imports it, it misses what it does without
    with Output(as_json="--json" in sys.argv, quiet=False, verbose=False).errors():
        try:
            code = app(prog_name="tonetune", standalone_mode=False)
        except WrongUsage as error:
            what, context = error.format_message(), error.ctx  # type: ignore[attr-defined]
            verb = context.command_path if context else "tonetune"
            raise UsageError(what.rstrip("."), where=verb, hint=f"{verb} --help") from None
    raise SystemExit(code)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"tonetune {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(UsageError.exit_code)


@app.command()
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="1,000 training reviews instead of 5,000.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Directory that holds the runs (run.dir).")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Config file instead of the demo's.")] = None,
    overrides: Set = [],
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The whole job on what packages ship: Gemma 3 270M, real Chinese reviews, any machine."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.train import demo

        given = [*overrides, *config_overrides({"run.dir": out})]
        output.document(demo(quick=quick, config=config, overrides=given, reporter=output.reporter()).summary)


@app.command()
@reads_files
def train(
    data: Annotated[Path | None, typer.Option("--data", help="File of labelled rows (data.train).")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Base model (model.base).")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Config file; see --init.")] = None,
    init: Annotated[Path | None, typer.Option("--init", help="Write a config of all defaults here and stop.")] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN|auto", help="Go on with a run that was ended before its time."),
    ] = None,
    text: TextColumns = [],
    label: LabelColumns = [],
    overrides: Set = [],
    allow_leaks: AllowLeaks = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """The whole job on your rows: prepare, baselines, tune, evaluate, report."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        if init is not None:
            if data or model or config or overrides or resume:
                raise UsageError("--init writes the defaults and takes no other setting", where="train --init")
            _write_starter(init)
            output.document({"path": str(init)})
            output.reporter().say(f"written: {init}")
            return
        from tonetune.api.train import train
        from tonetune.config import load_config
        from tonetune.data.readers import AS_FOUND

        flags = config_overrides({"data.train": data, "model.base": model, **columns(text, label)})
        reporter = output.reporter()
        if resume is not None:
            if allow_leaks or options != AS_FOUND:
                raise UsageError(
                    "a run that goes on has its rows", where="train --resume", hint="leave out how to read"
                )
            run = train(config, overrides=[*overrides, *flags], reporter=reporter, resume=resume)
            output.document(run.summary)
            return
        settings = load_config(config, overrides=[*overrides, *flags])
        if model is None and settings.model.base == "demo":
            reporter.say("base: demo (Gemma 3 270M); larger: --model google/gemma-3-1b-pt, a directory or a hub name")
        run = train(settings, reporter=reporter, allow_leaks=allow_leaks, options=options)
        output.document(run.summary)


@app.command()
@reads_files
def evaluate(
    run: RunPath,
    data: Annotated[list[Path], typer.Option("--data", help="Labelled rows to evaluate on instead of a split.")] = [],
    split: Annotated[str | None, typer.Option("--split", help="train, validation or test, the default.")] = None,
    text: TextColumns = [],
    label: LabelColumns = [],
    labels: Labels = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Metrics with intervals, per class, with confusion and calibration."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.evaluate import evaluate

        report = evaluate(
            run,
            data=data,
            split=split,
            text=text or "auto",
            label=label or "auto",
            labels=_names(labels),
            options=options,
            reporter=output.reporter(),
        )
        output.document(report)
        if not as_json and not quiet:
            from tonetune.cli.tables import evaluation_tables

            show(evaluation_tables(report))


@app.command()
@reads_files
def predict(
    run: RunPath,
    file: Annotated[str | None, typer.Argument(metavar="[FILE|-]", help="File of texts, or - for stdin.")] = None,
    inputs: Annotated[list[str], typer.Option("-i", "--input", help="A text; repeatable.")] = [],
    text: TextColumns = [],
    keep: Annotated[list[str], typer.Option("--keep", metavar="COLUMN", help="Copy this column; repeatable.")] = [],
    to: Annotated[Path | None, typer.Option("--to", help="Write .csv, .xlsx or .jsonl instead of stdout.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="stdin is plain lines of text, not JSON.")] = False,
    labels: Labels = None,
    abstain: Annotated[float, typer.Option("--abstain", min=0.0, max=1.0, help="No label below this.")] = 0.0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Label, confidence and scores for texts: one row out per row in, as JSON lines on stdout or to a file."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.files import check_format, predict_rows, write_predictions
        from tonetune.api.loaded import load

        if to is not None:
            check_format(to)
        given = _rows(file, inputs, lines=lines, run=run, text=text, keep=keep, options=options)
        if to is not None:
            check_format(to, given)
        classifier = load(run, labels=_names(labels), reporter=output.reporter())
        rows = predict_rows(classifier, given, abstain=abstain, reporter=output.reporter())
        if to is not None:
            write_predictions(to, rows, classifier.labels)
        _print_rows(rows, output, written=to)


@app.command()
@reads_files
def inspect(
    files: Files,
    text: TextColumns = [],
    label: LabelColumns = [],
    to: Annotated[Path | None, typer.Option("--to", help="Write the rows as read to this .jsonl file.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Also report tokens, as this base model reads.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """How files are understood: encoding, columns, labels, and every problem with what to do."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.data.inspect import inspect_files

        inspection = inspect_files(files, text=text or "auto", label=label or "auto", options=options)
        _print_inspection(inspection, output, _tokens(inspection, model))
        if to is not None:
            count = inspection.write_rows(to)
            output.reporter().say(f"{count:,} rows written to {to}")


@app.command()
@reads_files
def prepare(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="Directory for splits, dropped rows, labels and counts.")],
    validation: Annotated[list[Path], typer.Option("--validation", help="Validation rows, used as they are.")] = [],
    test: Annotated[list[Path], typer.Option("--test", help="Test rows, used as they are.")] = [],
    text: TextColumns = [],
    label: LabelColumns = [],
    config: Annotated[Path | None, typer.Option("--config", help="Config file; its section data is used.")] = None,
    overrides: Set = [],
    allow_leaks: AllowLeaks = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    *,
    options: "ReadOptions",
) -> None:
    """Clean rows, keep each text once, split 70/15/15."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.rows import prepare_rows
        from tonetune.config import load_config

        given = {"data.train": files, "data.validation": validation, "data.test": test, **columns(text, label)}
        settings = load_config(config, overrides=[*overrides, *config_overrides(given)])
        prepared = prepare_rows(settings, allow_leaks=allow_leaks, options=options)
        prepared.write(out)
        output.document(prepared.counts())
        if not as_json and not quiet:
            from tonetune.cli.tables import preparation_tables

            show([*preparation_tables(prepared.data_document()), f"written to {out}"])


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    out: Annotated[Path, typer.Option("--out", help="New directory for the bundle.")],
    to: Annotated[str, typer.Option("--to", help="adapter, merged, onnx or gguf.")],
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="Number format of the weights: float32; merged: bfloat16; onnx: int8, int4; "
            "gguf: float16, q8_0, q6_k, q5_k_m, q4_k_m.",
        ),
    ] = "float32",
    force: Annotated[bool, typer.Option("--force", help="Export a run whose base was not proven.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Files that others can run, after a parity gate on held-out rows."""
    output = Output(as_json, quiet, verbose)
    with output.errors():
        from tonetune.api.export import export

        output.document(export(run, to=to, out=out, precision=precision, force=force, reporter=output.reporter()))


def config_overrides(given: Mapping[str, object]) -> list[str]:
    """Overrides for the flags that were given; values are text, or lists of it, whatever they look like to YAML."""
    return [
        f"{key}={json.dumps([*map(str, value)] if isinstance(value, list) else str(value), ensure_ascii=False)}"
        for key, value in given.items()
        if value is not None and value != []
    ]


def columns(text: list[str], label: list[str]) -> dict[str, str | list[str] | None]:
    """--text and --label as config keys, where they name columns."""
    named = {"data.text": text, "data.label": label}
    return {key: names[0] if len(names) == 1 else names for key, names in named.items()}


def _names(labels: str | None) -> list[str] | None:
    """--labels as names."""
    return None if labels is None else [name.strip() for name in labels.split(",")]


def _write_starter(path: Path) -> None:
    from tonetune.config import starter_yaml
    from tonetune.rundir import whole_file

    if path.exists():
        raise UsageError("the file exists already", where=str(path), hint="name a new file")
    with whole_file(path) as file:
        file.write(starter_yaml())


def _rows(
    file: str | None,
    inputs: list[str],
    *,
    lines: bool,
    run: Path,
    text: list[str],
    keep: list[str],
    options: "ReadOptions",
) -> list[dict[str, Any]]:
    """The rows to predict."""
    from tonetune.api.files import rows_of_file, rows_of_stream
    from tonetune.data.readers.table import AS_FOUND, whole_characters

    if (file is None) == (not inputs):
        raise UsageError("name either a file (or -) or texts with -i", where="predict")
    if lines and file != "-":
        raise UsageError("--lines is for standard input", where="predict", hint="name - as the file")
    if file is not None and file != "-":
        return rows_of_file(file, run=run, text=text or "auto", keep=keep, options=options)
    if text or keep or options != AS_FOUND:
        raise UsageError("--text, --keep and the flags that say how to read need a file", where="predict")
    if file is None:
        return [{"text": whole_characters(text)} for text in inputs]
    return rows_of_stream(sys.stdin.buffer.read(), plain=lines)


def _print_rows(rows: list[dict[str, Any]], output: Output, *, written: Path | None) -> None:
    if output.as_json:
        output.document({"rows": rows} if written is None else {"rows": len(rows), "path": str(written)})
    elif written is None:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        output.reporter().say(f"{len(rows):,} rows written to {written}")


def _tokens(inspection: "Inspection", model: str | None) -> dict[str, Any]:
    """The part "tokens" of what `inspect` prints, where a model is named and the rows are understood."""
    texts = inspection.texts
    if model is None or not texts:
        return {}
    from tonetune.config import load_config
    from tonetune.data.token_report import token_report
    from tonetune.data.tokens import read_tokenizer
    from tonetune.model.source import find_base

    max_length = load_config(None).data.max_length
    tokenizer = read_tokenizer(find_base(model).directory)
    return {"tokens": token_report(texts, inspection.labels, tokenizer, max_length=max_length)}


def _print_inspection(inspection: "Inspection", output: Output, tokens: dict[str, Any]) -> None:
    if output.as_json:
        output.document({**inspection.as_dict(), **tokens})
        if inspection.question is not None:
            raise SystemExit(inspection.question.exit_code)
        return
    from tonetune.cli.tables import inspection_tables

    if not output.quiet:
        show(inspection_tables({**inspection.as_dict(), **tokens}))
    inspection.require_certain()


def show(parts: Sequence[Any]) -> None:
    """Print tables and lines for a person on stderr."""
    from tonetune.progress import ConsoleReporter

    reporter = ConsoleReporter()
    for part in parts:
        reporter.say(part)
