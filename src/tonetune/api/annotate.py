"""From files to labels worth training on: agreement of annotators, weak labels, and what to label next."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.annotate.agree import agreement, items_of, merged
from tonetune.annotate.exchange import read_annotations, read_export, write_questions
from tonetune.annotate.next import STRATEGIES, Pool, choose
from tonetune.annotate.weak import WeakLabels, read_rules
from tonetune.api.loaded import load
from tonetune.api.rows import config_of, rules_of, text_columns
from tonetune.api.setup import Placement, build_classifier, choose_prompt, load_placed
from tonetune.config import RunConfig, load_config
from tonetune.data.cleaning import clean_turns
from tonetune.data.columns import AUTO, find_text_columns
from tonetune.data.duplicates import text_key
from tonetune.data.example import TURN_END, Example
from tonetune.data.prepare import read_split
from tonetune.data.readers import AS_FOUND, ReadOptions, read_tables
from tonetune.data.rows import file_names, text_of
from tonetune.errors import ConfigError, DataError, UsageError
from tonetune.evaluation.baselines import zero_shot_calibrated
from tonetune.evaluation.calibration import log_softmax, softmax
from tonetune.evaluation.predict import Scorer
from tonetune.labels import LabelSet
from tonetune.model.source import find_base
from tonetune.progress import Reporter, default_reporter
from tonetune.rundir import write_jsonl
from tonetune.runtime import TextClassifier

__all__ = ["add_answers", "agree", "ask", "choose_rows", "read_texts", "weak", "write_questions"]

# N = texts, C = labels

Files = Sequence[str | Path]


def agree(files: Files, *, adjudicated: str | Path | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `annotate agree --json`, and one labelled row for each text that has a label.

    `files` are one per annotator, or exports of Label Studio; the labels in the file `adjudicated` decide. Raises
    DataError for files that cannot be used and where no text was labelled twice.
    """
    items = items_of(annotation for path in files for annotation in read_annotations(path))
    document = agreement(items)
    decisions = read_annotations(adjudicated) if adjudicated is not None else []
    rows, left_open = merged(items, {text_key(a.text): a.label for a in decisions if a.label is not None})
    return {**document, "merged": len(rows), "left_open": len(left_open)}, rows


def weak(
    files: Files,
    *,
    rules: str | Path,
    threshold: float,
    text: str | Sequence[str] = AUTO,
    options: ReadOptions = AS_FOUND,
    config: RunConfig | None = None,
    reporter: Reporter | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `annotate weak --json`, and a row for each text with label, confidence and scores.

    `rules` is the file of labelling functions; they look at cleaned texts. A text whose label is less probable than
    `threshold`, or that no function votes on, gets no label. `config` has the settings of a zero-shot model.
    Raises ConfigError for the rules, DataError for the files, MissingExtraError for a lexicon's package.
    """
    settings = config or load_config(None)
    functions = read_rules(rules)
    examples = read_texts(files, text=text, options=options)
    reporter = reporter or default_reporter()
    num_turns = 1 if isinstance(text, str) else len(text)
    texts = [clean_turns(example.text, num_turns, rules_of(settings))[0] for example in examples]

    def zero_shot(base: str, names: Sequence[str], part: Sequence[str]) -> NDArray[np.float64]:
        return _zero_shot(settings, base, names, part, num_turns, reporter)

    votes_NM = functions.votes(texts, zero_shot)
    found = WeakLabels.estimate(functions, votes_NM)
    rows = found.rows(examples, threshold=threshold)
    labels = Counter(row["label"] for row in rows if row["label"] is not None)
    return {**found.as_dict(), "labelled": sum(labels.values()), "labels": dict(sorted(labels.items()))}, rows


def ask(
    run: str | Path,
    files: Files,
    *,
    strategy: str,
    count: int,
    rng: np.random.Generator,
    asked: Files = (),
    text: str | Sequence[str] = AUTO,
    options: ReadOptions = AS_FOUND,
    reporter: Reporter | None = None,
) -> list[dict[str, Any]]:
    """Up to `count` rows of `files` to label next, the most urgent first: text, origin, suggested label, confidence.

    Left out are texts of the run itself, those in the files `asked` (what was written to be asked, an export, or any
    file with the text columns of `files`), and repeats. Raises UsageError for an unknown strategy, DataError where
    nothing is left to ask.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}", where="--strategy")
    classifier = load(run)
    if classifier.thresholds is not None:
        raise UsageError(
            "what to label next is chosen by classifiers of one label a text, and this one gives any number",
            where=str(run),
            hint="tonetune predict gives its scores",
        )
    columns = text_columns(config_of(run), text, num_turns=classifier.num_turns)
    known = {text_key(text) for path in asked for text in _asked_texts(path, columns)} | _texts_of(run)
    distinct: dict[str, Example] = {}
    for example in read_texts(files, text=columns, options=options):
        if key := text_key(clean_turns(example.text, classifier.num_turns, classifier.cleaning)[0]):
            distinct.setdefault(key, example)
    pool = [example for key, example in distinct.items() if key not in known]
    if not pool:
        raise DataError("every text was asked before, or is empty", where=str(files[0]), hint="name another file")
    return choose_rows(classifier, pool, strategy=strategy, count=count, rng=rng, reporter=reporter)


def choose_rows(
    classifier: TextClassifier,
    examples: Sequence[Example],
    *,
    strategy: str,
    count: int,
    rng: np.random.Generator,
    reporter: Reporter | None = None,
) -> list[dict[str, Any]]:
    """As `ask`, among examples that are read already."""
    texts = [example.text for example in examples]
    with (reporter or default_reporter()).bar("reading the pool", len(texts)) as bar:
        probs_NC = softmax(classifier.logits(texts, done=bar.advance), classifier.temperature)
    pool = Pool(probs_NC, lambda chosen: _states(classifier, [texts[i] for i in chosen]))
    return [
        {
            "text": texts[i],
            "origin": examples[i].origin,
            "suggested": classifier.labels[int(probs_NC[i].argmax())],
            "confidence": float(probs_NC[i].max()),
        }
        for i in choose(pool, strategy=strategy, count=count, rng=rng).tolist()
    ]


def add_answers(
    path: Path, before: Files, answers: Files, *, text: str | Sequence[str] = AUTO, label: str = AUTO
) -> tuple[str | Sequence[str], str, int]:
    """Write the labelled rows of the files `before` and `answers` to `path`, each text once.

    `text` and `label` name the columns of labelled rows, and those of the file written; what is "auto" is called text
    and label there. Returns both names and the number of rows. An answer replaces what was said of the same text
    before. Raises DataError where no answer has a label, and for an answer without as many lines as there are turns.
    """
    new = [a for file in answers for a in read_annotations(file, text=text, label=label) if a.label is not None]
    if not new:
        raise DataError("no answer has a label", where=", ".join(map(str, answers)), hint="label some of the texts")
    columns, name = "text" if text == AUTO else text, "label" if label == AUTO else label
    old = [a for file in before for a in read_annotations(file, text=columns, label=name) if a.label is not None]
    annotations = {text_key(a.text): a for a in [*old, *new]}
    rows = ({"origin": a.origin, **_cells(a.text, columns, a.origin), name: a.label} for a in annotations.values())
    write_jsonl(path, rows)
    return columns, name, len(annotations)


def _cells(text: str, columns: str | Sequence[str], origin: str) -> dict[str, str]:
    """A text in its column, or its turns, one a line, in theirs."""
    if isinstance(columns, str):
        return {columns: text}
    turns = [text] if len(columns) == 1 else text.split(TURN_END)
    if len(turns) != len(columns):
        raise DataError(
            f"a text of {len(columns)} turns, one a line, is expected, found {len(turns)}",
            where=origin,
            hint=f"the text columns are {', '.join(columns)}: keep the line breaks of the questions",
        )
    return dict(zip(columns, turns, strict=True))


def _asked_texts(path: str | Path, columns: str | Sequence[str]) -> list[str]:
    """The texts of a file of questions or of an export, or in the text columns of any other file."""
    exported = read_export(path)
    return [e.text for e in (read_texts([path], text=columns) if exported is None else exported)]


def _states(classifier: TextClassifier, texts: Sequence[str]) -> NDArray[np.float32]:
    """What the head sees of each text, shape (N, D). Raises UsageError for a graph, which gives only logits."""
    if not isinstance(classifier.scorer, Scorer):
        raise UsageError("an ONNX bundle gives no hidden states", where="--strategy diverse", hint="--strategy margin")
    return classifier.scorer.states(classifier.encode(texts).ids)


def read_texts(files: Files, *, text: str | Sequence[str], options: ReadOptions = AS_FOUND) -> list[Example]:
    """The texts of files, without labels; of several text columns each is a turn. Raises what reading a file raises."""
    tables = read_tables([Path(path).expanduser() for path in files], options)
    names = file_names([table.path for table in tables])
    examples = []
    for table in tables:
        columns, rows = find_text_columns(table, text=text), zip(table.rows, table.lines, strict=True)
        examples += [Example(text_of(row, columns), (), f"{names[table.path]}:{line}") for row, line in rows]
    return examples


def _texts_of(run: str | Path) -> set[str]:
    """Keys of the texts in the splits of a run; an adapter directory has none."""
    splits = (Path(run).expanduser() / "splits").glob("*.jsonl")
    return {text_key(example.text) for path in splits for example in read_split(path)}


def _zero_shot(
    config: RunConfig, base: str, names: Sequence[str], texts: Sequence[str], num_turns: int, reporter: Reporter
) -> NDArray[np.float64]:
    """Probabilities of the labels by an untrained model's own words, shape (N, C), corrected for its bias."""
    settings = config.with_values({"model.base": base})
    source = find_base(base, revision=settings.model.revision)
    placement = Placement.choose(settings, source, num_labels=len(names))
    how = {"quantization": settings.model.quantization, "gate": settings.model.load_gate}
    loaded, labels = load_placed(source, placement, **how), LabelSet(tuple(names))
    prompt = choose_prompt(settings, loaded, labels, texts, num_turns=num_turns)
    if prompt.words is None:
        raise ConfigError([prompt.note or "there are no label words"], where="zero_shot")
    classifier = build_classifier(settings, loaded, labels, prompt, init="words")
    scorer = Scorer(classifier, prompt.tokenizer, placement.micro_batch_tokens.value, placement.call_tokens)
    with reporter.bar("zero-shot", len(texts)) as bar:
        scores_NC = log_softmax(scorer.logits(scorer.tokenizer.encode(texts).ids, done=bar.advance), 1.0)
    return softmax(zero_shot_calibrated(scores_NC, scores_NC), 1.0)
