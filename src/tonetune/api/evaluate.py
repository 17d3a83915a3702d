"""Evaluation of a trained run on one of its splits, or on another file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tonetune.api.loaded import load
from tonetune.api.results import evaluate_split
from tonetune.api.rows import config_of, text_columns
from tonetune.data.cleaning import clean_rows
from tonetune.data.columns import AUTO
from tonetune.data.example import Example
from tonetune.data.prepare import read_split
from tonetune.data.readers import AS_FOUND, ReadOptions
from tonetune.data.split_files import read_labelled
from tonetune.data.splits import SPLITS, TEST
from tonetune.errors import DataError, UsageError
from tonetune.model.artefact import MANIFEST, PEFT_CONFIG
from tonetune.progress import Reporter, default_reporter
from tonetune.rundir import RunDir
from tonetune.runtime import TextClassifier


def evaluate(
    run: str | Path,
    *,
    data: Sequence[str | Path] = (),
    split: str | None = None,
    text: str | Sequence[str] = AUTO,
    label: str | Sequence[str] = AUTO,
    labels: Sequence[str] | None = None,
    options: ReadOptions = AS_FOUND,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Metrics with intervals of a run on its `split` (None: test), or on files of `data` cleaned as in training.

    Text columns that are not named are, for a text of several turns, those of the run; `options` override what is found
    in the files. Returns the document of `evaluate --json`, and warns of labels that seem to be in another order than
    those of the rows. An adapter directory needs `data`; `labels` are for one that PEFT saved, see `tonetune.load`.
    Raises DataError for rows that cannot be used, UnknownLabelError for labels the classifier does not have.
    """
    if data and split is not None:
        raise UsageError("rows come from a split or from files, not from both", where="evaluate")
    split = split or TEST
    own = None if data else _from_run(run, split)
    reporter = reporter or default_reporter()
    classifier = load(run, labels=labels, reporter=reporter)
    examples = own if own is not None else _from_files(run, data, classifier, text, label, options)
    texts = [example.text for example in examples]
    gold = classifier.task.gold(examples)
    with reporter.bar("evaluating", len(texts)) as bar:
        encoded = classifier.encode(texts)
        logits = classifier.scorer.logits(encoded.ids, done=bar.advance)
    name = "data" if data else split
    report, _ = evaluate_split(
        classifier.task, name, texts=texts, logits=logits, gold=gold, truncated=encoded.truncated
    )
    for alarm in report["alarms"]:
        reporter.say(f"warning: {alarm['what']}; {alarm['advice']}")
    return {"run": str(Path(run).expanduser().resolve()), **report}


def _from_run(run: str | Path, split: str) -> list[Example]:
    if split not in SPLITS:
        raise UsageError(f"no split {split!r}; there are {', '.join(SPLITS)}", where="--split")
    if any((Path(run).expanduser() / name).is_file() for name in (MANIFEST, PEFT_CONFIG)):
        raise UsageError("an adapter has no rows of its own", where=str(run), hint="name a file with --data")
    return read_split(RunDir.open(run).split(split))


def _from_files(
    run: str | Path,
    files: Sequence[str | Path],
    classifier: TextClassifier,
    text: str | Sequence[str],
    label: str | Sequence[str],
    options: ReadOptions,
) -> list[Example]:
    """Rows of files, cleaned and their labels renamed as in training, which an adapter directory no longer knows."""
    config = config_of(run)
    columns = text_columns(config, text, num_turns=classifier.num_turns)
    multi_label = classifier.thresholds is not None
    examples = read_labelled(files, text=columns, label=label, multi_label=multi_label, options=options)
    cleaned = clean_rows(
        examples,
        rename=config.data.rename if config else {},
        labels=classifier.label_set,
        rules=classifier.cleaning,
        multi_label=multi_label,
        num_turns=classifier.num_turns,
    )
    if not cleaned.examples:
        raise DataError("no usable row", where=str(files[0]), hint="see tonetune inspect FILE")
    return cleaned.examples
