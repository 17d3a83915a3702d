"""Tables for a person at a terminal. Texts and labels come from files: control characters are spelled out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tonetune.errors import listed
from tonetune.evaluation.paired import SIGNIFICANT
from tonetune.report.results import metric_title, shown_metrics
from tonetune.report.text import percent, plain
from tonetune.visible import visible

LABELS_SHOWN = 30
DISAGREEMENTS_SHOWN = 20
ROWS_SHOWN = 3
CHARACTERS_SHOWN = 60
ROW_COUNTS = ("empty_text", "missing_label", "duplicates", "contradictions")


def _cell(value: object) -> Text:
    """A cell that shows what it holds: no markup, no terminal escapes."""
    return Text(visible("–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)))


def _block(lines: Sequence[tuple[str, str]]) -> Table:
    """Names and values below each other, whatever the width of the terminal, and a blank line."""
    block = Table.grid(padding=(0, 2, 0, 0))
    for name, value in [line for line in lines if line[1]]:
        block.add_row(Text(name, style="dim"), _cell(value))
    block.add_row()
    return block


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, right_from: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="dim")
    for i, column in enumerate(columns):
        table.add_column(Text(visible(column)), justify="right" if i >= right_from else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def inspection_tables(document: dict[str, Any]) -> list[Any]:
    """What `inspect` shows of its document."""
    parts: list[Any] = [_block(_file_lines(file)) for file in document["files"]]
    names = [(role, document[f"{role}_column"]) for role in ("text", "label")]
    lines = [(role, ", ".join(name) if isinstance(name, list) else name or "?") for role, name in names]
    parts.append(_block([*lines, ("separator", document["label_separator"] or ""), ("task", document["task"] or "?")]))
    if document["labels"]:
        labels = list(document["labels"].items())  # the largest first
        parts.append(_table("labels", ["label", "rows"], labels[:LABELS_SHOWN]))
        if len(labels) > LABELS_SHOWN:
            parts.append(f"and {len(labels) - LABELS_SHOWN:,} more labels")
    for p in document["problems"]:
        name = f"{p['code'].replace('_', ' ')}: {p['count']:,}"
        parts.append(_block([("problem", name), ("for example", p["example"]), ("what to do", p["advice"])]))
    if "tokens" in document:
        parts += _token_parts(document["tokens"])
    by_role: dict[str, list[dict[str, Any]]] = {}
    for candidate in document.get("candidates", ()):
        by_role.setdefault(candidate["role"], []).append(candidate)
    for role, candidates in by_role.items():
        columns = [key for key in candidates[0] if key != "role"]
        rows = [[candidate[key] for key in columns] for candidate in candidates]
        parts.append(_table(f"candidates: {role}", [key.replace("_", " ") for key in columns], rows))
    return parts


def _token_parts(report: dict[str, Any]) -> list[Any]:
    """The token report of `inspect`: lengths in a line, then the words and their pieces."""
    lengths = ", ".join(f"{name} {value:,}" for name, value in report["tokens"].items())
    lines = [
        ("tokens", lengths),
        ("cut", f"{percent(report['truncated'])} of the texts are longer than {report['max_length']} tokens"),
        ("density", f"{report['tokens_per_character']:.2f} tokens a character"),
    ]
    labels = [[label, row["word"], "|".join(row["pieces"])] for label, row in report["label_words"].items()]
    words = [[word, row["count"], "|".join(row["pieces"])] for word, row in report["emotion_words"].items()]
    return [
        _block(lines),
        _table("words of the labels", ["label", "word", "tokens"], labels[:LABELS_SHOWN], right_from=99),
        _table("frequent words of emotions", ["word", "times", "tokens"], words, right_from=99),
    ]


def _file_lines(file: dict[str, Any]) -> list[tuple[str, str]]:
    """A file of `inspect` in a few lines; counts of nothing are left out."""
    kind = [file["format"], file["encoding"], f"sheet {file['sheet']}" if file["sheet"] else None]
    lines = [("file", file["path"]), ("format", ", ".join(filter(None, kind)))]
    if file["usable"] is None:
        return lines if file["rows"] is None else [*lines, ("rows", f"{file['rows']:,}")]
    lines.append(("rows", f"{file['rows']:,}, of which {file['usable']:,} usable"))
    found = [f"{file[name]:,} {name.replace('_', ' ')}" for name in ROW_COUNTS if file[name]]
    return [*lines, ("among them", ", ".join(found))] if found else lines


def preparation_tables(document: dict[str, Any]) -> list[Any]:
    """What `prepare` shows of data.json."""
    splits = document["splits"]
    labels = list(next(iter(splits.values()))["labels"])
    rows = [[label, *(split["labels"][label] for split in splits.values())] for label in labels]
    rows.append(["all", *(split["rows"] for split in splits.values())])
    parts: list[Any] = [_table("rows", ["label", *splits], rows)]
    if document["dropped"]:
        parts.append(_table("dropped", ["reason", "rows"], list(document["dropped"].items())))
    return [*parts, *(f"note: {warning}" for warning in document["warnings"])]


def evaluation_tables(report: dict[str, Any]) -> list[Any]:
    """What `evaluate` shows of a split's report."""
    tuned = report["tuned"]
    lines = [
        f"{name}: {percent(tuned[key])} (95 % interval {percent(tuned[f'{key}_ci95'][0])} to "
        f"{percent(tuned[f'{key}_ci95'][1])})"
        for key, name in shown_metrics(tuned)
    ]
    per_label = [
        [label, *(f"{row[key]:.3f}" for key in ("precision", "recall", "f1")), row["support"]]
        for label, row in report["per_label"].items()
    ]
    return [
        f"{report['split']}: {tuned['n']:,} texts",
        *lines,
        f"expected calibration error: {percent(report['ece'])} at temperature {report['temperature']:.2f}",
        *(f"collect next: {advice}" for advice in report["mistakes"]["collect"]),
        _table("per label", ["label", "precision", "recall", "F1", "texts"], per_label),
        *([_confusion_table(report)] if "confusion" in report else [_pairs_table(report["mistakes"]["pairs"])]),
    ]


def _confusion_table(report: dict[str, Any]) -> Table:
    confusion = [[label, *counts] for label, counts in zip(report["labels"], report["confusion"], strict=True)]
    return _table("confusion, true classes as rows", ["", *report["labels"]], confusion)


def _pairs_table(pairs: Sequence[dict[str, Any]]) -> Table:
    """What a multi-label classifier misses and adds."""
    rows = [[pair["gold"], pair["label"], pair["count"]] for pair in pairs]
    return _table("commonest mistakes", ["missed", "given instead", "texts"], rows, right_from=2)


def comparison_tables(document: dict[str, Any]) -> list[Any]:
    """What `compare` shows of its document."""
    points = [
        [
            name,
            f"{100 * document['difference'][metric]:+.1f}",
            "{:+.1f} to {:+.1f}".format(*(100 * end for end in document["ci95"][metric])),
            f"{document['p_value'][metric]:.3g}",
        ]
        for metric, name in shown_metrics(document["difference"])
    ]
    differing = [[key, plain(one), plain(other)] for key, (one, other) in document["config_diff"].items()]
    title = f"second less first on {document['n']:,} texts, in points"
    parts = [document["verdict"], _table(title, ["metric", "difference", "95 % interval", "p"], points)]
    if differing:
        parts.append(_table("config", ["key", "first", "second"], differing, right_from=3))
    for name, rows in document["rows"].items():
        shown = [
            [_short(row["text"]), *(plain(row[key]) for key in ("gold", "first", "second"))] for row in rows["examples"]
        ]
        if shown:
            title = f"{name} by the second: {rows['count']:,} rows, the surest first"
            parts.append(_table(title, ["text", "true", "first", "second"], shown[:ROWS_SHOWN], right_from=4))
    return parts


def sweep_tables(document: dict[str, Any]) -> list[Any]:
    """What `sweep` shows of its document: each trial on the validation rows, and the best one on the test rows."""
    name = metric_title(document["metric"])
    ablation = any("against_base" in trial for trial in document["trials"])
    rows = []
    for trial in document["trials"]:
        changes = ", ".join(f"{key}={value}" for key, value in trial["changes"].items()) or "the config as it is"
        low, high = trial["ci95"] or (0.0, 0.0)
        value = f"{trial['value']:.3f} [{low:.3f}, {high:.3f}]" if trial["run"] else trial["state"]
        rows.append([trial["number"], changes, value, *([_against(trial)] if ablation else [])])
    columns = ["trial", "changes", f"validation {name}", *(["against the config as it is"] if ablation else [])]
    parts: list[Any] = [_table("trials", columns, rows, right_from=2)]
    if document["best"]:
        best, test = document["best"], document["best"]["test"]
        parts.append(f"best on validation: trial {best['number']}, {best['run']}")
        (metric, title), *_ = shown_metrics(test) if test else [("", "")]
        parts.append(f"its test {title}: {percent(test[metric])}" if test else "it has no test rows")
    return parts


def run_tables(document: dict[str, Any]) -> list[Any]:
    """What `runs` shows of its document."""
    rows = [
        [Path(r["path"]).name, r["status"], r["step"], _best(r), f"{r['size_mib']:,.0f}", _age(r["age_s"])]
        for r in document["runs"]
    ]
    columns = ["run", "status", "steps", "best validation", "MiB", "age"]
    parts: list[Any] = [_table("runs", columns, rows, right_from=2)] if rows else ["no runs here"]
    if "removed" in document:
        size_mib = sum(row["size_mib"] for row in document["removed"])
        verb = "would be removed" if document["dry_run"] else "removed"
        parts += [f"{verb}: {row['path']}" for row in document["removed"]]
        parts.append(f"{verb} in all: {len(document['removed']):,}, {size_mib:,.1f} MiB")
    return parts


def _best(run: dict[str, Any]) -> str | None:
    """The best validation with the name of its metric, which need not be that of the run above it."""
    return None if run["best"] is None else f"{metric_title(run['metric'])} {run['best']:.3f}"


def _age(seconds: int) -> str:
    """A span of time in its largest whole unit."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _against(trial: dict[str, Any]) -> str:
    """The difference to the base in points, and whether it is more than noise."""
    if "against_base" not in trial:
        return "–"
    found = trial["against_base"]
    low, high = (100 * end for end in found["ci95"])
    noise = "more than noise" if found["p_value"] < SIGNIFICANT else "noise"
    return f"{100 * found['difference']:+.1f} [{low:+.1f}, {high:+.1f}] {noise}"


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}…"


def doctor_tables(document: dict[str, Any]) -> list[Any]:
    """What `doctor` shows of its document: the devices, torch, the probes, what to do, and the verdict last."""
    devices = [
        [d["name"], d["arch"], _use(d), "–" if d["memory_gib"] is None else f"{d['memory_gib']:.1f} GiB"]
        for d in document["devices"]
    ]
    parts: list[Any] = [_table("devices", ["name", "arch", "torch", "memory"], devices, right_from=3), ""]
    parts.append(_block(_torch_lines(document)))
    if document["probes"]:
        columns = ("id", "title", "status", "value", "limit")
        rows = [[_figure(probe[column]) for column in columns] for probe in document["probes"]]
        parts += [_table("probes", ["", "probe", "status", "value", "limit"], rows, right_from=3), ""]
        parts += [_block([(p["id"], p["detail"]), ("do", p["advice"])]) for p in document["probes"] if p["advice"]]
    for row in document["advice"]:
        name = {"ready": "note"}.get(row["verdict"], row["verdict"])
        parts.append(_block([(name, row["id"]), ("found", row["evidence"]), ("do", row["advice"])]))
        if row["command"]:
            parts += ["    " + row["command"].replace(" --index-url", " \\\n      --index-url"), ""]
    return [*parts, f"{document['verdict']}: {document['summary']}"]


def _use(device: dict[str, Any]) -> str:
    """The name under which torch sees a device, else why it does not."""
    return str(device["torch"] or ("not seen" if device["access"] in (None, "open") else f"access {device['access']}"))


def _figure(value: str | float | None) -> str | None:
    return f"{value:.3g}" if isinstance(value, (int, float)) else value


def _torch_lines(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The installed torch, the drivers and the system in a few lines; what is absent is left out."""
    torch, system = document["torch"], document["system"]
    build = [f"{torch['version']}, built for {torch['backend']}"] if torch["version"] else []
    versions = [f"{name} {torch[key]}" for name, key in (("ROCm", "hip"), ("CUDA", "cuda")) if torch[key]]
    drivers = [f"{name} {version}" for name, version in system["drivers"].items() if version]
    place = [f"{system['system']}, Python {system['python']}"]
    inside = [f"in a {system['container']} container"] if system["container"] else []
    return [
        ("torch", ", ".join([*build, *versions]) or torch["status"]),
        ("drivers", ", ".join(drivers)),
        ("system", ", ".join([*place, *inside])),
    ]


def plan_tables(document: dict[str, Any]) -> list[Any]:
    """What `plan` shows of its document."""
    parameters, passes, estimate = document["parameters"], document["micro_batches_per_step"], document["estimate"]
    way = "computed again in the backward pass" if document["checkpointing"] else "kept"
    lines = [
        ("base", document["base"]),
        ("parameters", f"{parameters['total']:,}, and {parameters['trainable']:,} to train"),
        ("on", f"{document['device']}, {document['dtype']}, {document['attention']} attention"),
        ("micro-batch", f"{document['micro_batch_tokens']:,} tokens; activations are {way}"),
        ("a step", f"{passes['mean']:.1f} micro-batches, at most {passes['max']}"),
        ("longest texts", f"{document['largest_batch_texts']:,} fit at once"),
        ("time", _time(estimate)),
        ("cost", "" if estimate["cost"] is None else f"{estimate['cost']:.2f}"),
    ]
    if measured := document["measured"]:
        peak, step_s = measured["peak_memory_mib"], measured["step_s"]
        lines.append(("measured", f"{peak:,.0f} MiB at the peak, {step_s:.3g} s for the fullest step"))
    memory = [[name, f"{mib:,.0f}"] for name, mib in document["memory_mib"].items()]
    memory.append(["may be used", f"{document['available_mib']:,}"])
    return [_block(lines), _table("memory", ["", "MiB"], memory), *document["reasons"]]


def _time(estimate: dict[str, Any]) -> str:
    step = f"{estimate['step_s']:.3g} s a step"
    if estimate["steps"] is None:
        return f"{step} ({estimate['basis']})"
    return f"{step}, {estimate['train_s'] / 60:.3g} min for {estimate['steps']:,} steps ({estimate['basis']})"


def weak_tables(document: dict[str, Any]) -> list[Any]:
    """What `annotate weak` shows of its document."""
    shares = ("coverage", "overlaps", "conflicts")
    rows = [
        [f["name"], listed(f["labels"]), *(percent(f[share]) for share in shares), percent(f["accuracy"])]
        for f in document["functions"]
    ]
    rows.append(["all", "", *(percent(document[share]) for share in shares), ""])
    labels = [[label, count] for label, count in document["labels"].items()]
    return [
        _table("labelling functions", ["name", "labels", *shares, "accuracy, estimated"], rows, right_from=2),
        _table(f"labelled: {document['labelled']:,} of {document['texts']:,} texts", ["label", "rows"], labels),
    ]


def agreement_tables(document: dict[str, Any]) -> list[Any]:
    """What `annotate agree` shows of its document."""
    pairs = [
        [" and ".join(p["annotators"]), p["texts"], _figure(p["agreement"]), _figure(p["kappa"])]
        for p in document["pairs"]
    ]
    labels = [[label, row["texts"], _figure(row["alpha"])] for label, row in document["per_label"].items()]
    disagreements = [
        [_short(d["text"]), *(d["labels"].get(name) for name in document["annotators"])]
        for d in document["disagreements"][:DISAGREEMENTS_SHOWN]
    ]
    more = len(document["disagreements"]) - len(disagreements)
    return [
        f"Cohen's kappa {_figure(document['kappa']) or '–'}, "
        f"Krippendorff's alpha {_figure(document['alpha']) or '–'} on "
        f"{document['shared']:,} texts with several labels: {document['verdict']}",
        _table("pairs of annotators", ["pair", "texts", "agreement", "kappa"], pairs),
        _table("labels, each against the others", ["label", "texts", "alpha"], labels),
        _table("disagreements", ["text", *document["annotators"]], disagreements, right_from=99),
        *([f"and {more:,} more"] if more else []),
    ]


def noise_tables(document: dict[str, Any]) -> list[Any]:
    """What `annotate noise` shows of its document."""
    rows = [[pair["label"], pair["suggested"], pair["count"]] for pair in document["pairs"][:DISAGREEMENTS_SHOWN]]
    title = f"doubtful: {document['doubtful']:,} of {document['texts']:,} rows"
    return [_table(title, ["label", "fits better", "rows"], rows, right_from=2)] if rows else [title]
