"""How files are understood: columns, task, counts, and every problem with what to do about it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tonetune.data.columns import NO_COLUMNS, Columns, find_columns
from tonetune.data.duplicates import text_key
from tonetune.data.example import Example
from tonetune.data.label_names import difference, measures, numbers_in_words, suspects
from tonetune.data.near_duplicates import near_groups
from tonetune.data.readers import AS_FOUND, ReadOptions, Table, read_tables, split_paths
from tonetune.data.rows import Reading, file_names, read_rows
from tonetune.errors import UncertainError, listed
from tonetune.labels import MULTI_LABEL
from tonetune.rundir import write_jsonl

SMALLEST_CLASS = 3  # one row for each of train, validation and test
LONG_CHARACTERS = 1000  # beyond what 256 tokens hold in any language
IMBALANCE = 3  # rows of the largest class for one of the smallest, from which weights pay (docs/lab.md)
EXAMPLE_CHARACTERS = 80
Labellings = frozenset[frozenset[str]]
COUNTS = ("usable", "empty_text", "missing_label", "duplicates", "contradictions")
FILE_ADVICE = {
    "legacy_bytes": "counted in lines: they are not UTF-8 and were read as Windows-1252; save the file as UTF-8",
    "nul_bytes": "counted in lines: NUL characters were left out; look whether the file was cut or copied badly",
    "other_delimiter": "counted in lines: another delimiter would divide each into as many cells as the header has; "
    "use one throughout, for they are read as a first cell and nothing else",
    "merged_cells": "counted in rows: a merged cell stands for every row that it spans; look whether that is meant",
    "outside_table": "titles above the header and footers below the table, which are left out",
}
ROW_ADVICE = {
    "overlong_rows": "quote texts that hold the delimiter, or name the right one with --delimiter; left out otherwise",
    "empty_text": "these rows are left out",
    "missing_label": "label them, or they are left out",
    "long_text": "the middle of a text beyond data.max_length tokens is cut, its beginning and end are kept",
}


@dataclass(frozen=True)
class Problem:
    """One thing about the rows that a person should know; `count` is in rows unless the advice says otherwise."""

    code: str
    count: int
    example: str
    advice: str

    def as_dict(self) -> dict[str, str | int]:
        return {"code": self.code, "count": self.count, "example": self.example, "advice": self.advice}


@dataclass(frozen=True)
class Inspection:
    """What `tonetune inspect` shows. `readings` are the rows as read, one reading a file.

    `question` is what has to be asked where the files can be understood in several ways: then there are no readings,
    and no tables either where it is about a file itself.
    """

    paths: tuple[Path, ...]
    tables: tuple[Table, ...] = ()
    columns: Columns = NO_COLUMNS
    readings: tuple[Reading, ...] = ()
    problems: tuple[Problem, ...] = ()
    question: UncertainError | None = None

    @property
    def labels(self) -> dict[str, int]:
        """Rows of each label over all files, the largest first; names without the blanks around them."""
        counts = Counter(label.strip() for r in self.readings for example in r.examples for label in example.labels)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def texts(self) -> list[str]:
        """Texts of the usable rows of all files."""
        return [example.text for reading in self.readings for example in usable_rows(reading)]

    @property
    def rename(self) -> dict[str, str]:
        """What `data.rename` could hold, after a person has looked at each problem with a name."""
        written = Counter(label for r in self.readings for example in r.examples for label in example.labels)
        return {name: meant for renames in suspects(written).values() for name, meant in renames.items()}

    def as_dict(self) -> dict[str, object]:
        """The document `tonetune inspect --json` prints. What is not known where there is a question is null."""
        document: dict[str, object] = {
            "files": [self._file(i) for i in range(len(self.paths))],
            "text_column": _one_or_list(self.columns.text),
            "label_column": _one_or_list(self.columns.label),
            "label_separator": self.columns.separator,
            "task": self.columns.task,
            "labels": self.labels,
            "rename": self.rename,
            "problems": [problem.as_dict() for problem in self.problems],
        }
        return document if self.question is None else {**document, "candidates": list(self.question.candidates)}

    def _file(self, i: int) -> dict[str, object]:
        table = self.tables[i] if self.tables else None
        found = {name: getattr(table, name, None) for name in ("encoding", "format", "delimiter", "sheet")}
        counts = row_counts(self.readings[i]) if self.readings else dict.fromkeys(COUNTS)
        return {"path": str(self.paths[i]), **found, "rows": None if table is None else len(table), **counts}

    def require_certain(self) -> None:
        """Raises UncertainError where there is a question."""
        if self.question is not None:
            raise self.question

    def write_rows(self, path: Path) -> int:
        """Write the rows as read to JSON lines, as `Example.as_row` has them.

        Returns the number of rows. Raises UncertainError, writing nothing, where there is a question; DiskError.
        """
        self.require_certain()
        multi_label, num_turns = self.columns.task == MULTI_LABEL, len(self.columns.text)
        examples = (example for reading in self.readings for example in reading.rows)
        rows = [example.as_row(multi_label=multi_label, num_turns=num_turns) for example in examples]
        write_jsonl(path, rows)
        return len(rows)


def _one_or_list(names: Sequence[str]) -> str | list[str] | None:
    return list(names) if len(names) > 1 else next(iter(names), None)


def inspect_files(
    paths: Sequence[str | Path],
    *,
    text: str | Sequence[str],
    label: str | Sequence[str],
    options: ReadOptions = AS_FOUND,
) -> Inspection:
    """Read files and say how they are understood; the columns are found in the first and expected in the others.

    Of a dataset with several splits each is a file. Raises DataError for files that cannot be read and for named
    columns that are missing. What is uncertain raises nothing: the inspection then has a question and no counts.
    """
    files = tuple(file for path in paths for file in split_paths(path).values())
    try:
        tables = tuple(read_tables(files, options))
        columns = find_columns(tables[0], text=text, label=label)
    except UncertainError as question:
        return Inspection(files, question=question)
    if not columns.certain:
        return Inspection(files, tables, columns, question=columns.uncertainty(tables[0]))
    names = file_names(files)
    readings = tuple(read_rows(table, columns, name=names[table.path]) for table in tables)
    return Inspection(files, tables, columns, readings, tuple(_problems(tables, columns, readings)))


def usable_rows(reading: Reading) -> list[Example]:
    """Rows with a text and a label."""
    return [e for e in reading.examples if e.text.strip() and e.origin not in reading.unlabelled]


def _labels_by_text(examples: Sequence[Example]) -> dict[str, Labellings]:
    """The different labellings of each text; equal values are one object, for there may be millions of texts."""
    labels: dict[str, Labellings] = {}
    known: dict[Labellings, Labellings] = {}
    for e in examples:
        text, labelling = e.text.strip(), frozenset(label.strip() for label in e.labels)
        found = labels.get(text, frozenset()) | {labelling}
        labels[text] = known.setdefault(found, found)
    return labels


def row_counts(reading: Reading) -> dict[str, int]:
    """Counts of one file's rows; blanks around texts and labels do not count.

    usable: rows with a text and a label; empty_text, missing_label: rows without one; duplicates: usable rows less
    distinct texts; contradictions: distinct texts with more than one label.
    """
    usable = usable_rows(reading)
    labels = _labels_by_text(usable)
    return {
        "usable": len(usable),
        "empty_text": sum(1 for e in reading.examples if not e.text.strip()),
        "missing_label": len(reading.unlabelled),
        "duplicates": len(usable) - len(labels),
        "contradictions": sum(1 for found in labels.values() if len(found) > 1),
    }


def _problems(tables: Sequence[Table], columns: Columns, readings: Sequence[Reading]) -> list[Problem]:
    usable = [example for reading in readings for example in usable_rows(reading)]
    return [
        *_file_problems(tables),
        *_row_problems(readings, usable),
        *_label_problems(columns, usable),
        *_header_problems(tables, columns),
    ]


def _file_problems(tables: Sequence[Table]) -> list[Problem]:
    places: dict[str, list[str]] = {}
    names = file_names([table.path for table in tables])
    for table in tables:
        for code, lines in table.notes.items():
            places.setdefault(code, []).extend(f"{names[table.path]}:{line}" for line in lines)
    return [Problem(code, len(found), found[0], FILE_ADVICE[code]) for code, found in places.items()]


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXAMPLE_CHARACTERS else flat[: EXAMPLE_CHARACTERS - 1] + "…"


def _row_problems(readings: Sequence[Reading], usable: Sequence[Example]) -> list[Problem]:
    rows = [example for reading in readings for example in reading.examples]
    unlabelled = {origin for reading in readings for origin in reading.unlabelled}
    found = {
        "overlong_rows": [row.example for reading in readings for row in reading.dropped],
        "empty_text": [e for e in rows if not e.text.strip()],
        "missing_label": [e for e in rows if e.origin in unlabelled],
        "long_text": [e for e in usable if len(e.text) > LONG_CHARACTERS],
    }
    problems = [Problem(code, len(bad), bad[0].origin, ROW_ADVICE[code]) for code, bad in found.items() if bad]
    if not usable:
        problems.append(
            Problem("no_usable_rows", len(rows), "", "check that --text and --label name the right columns")
        )
    labels = _labels_by_text(usable)
    texts = Counter(example.text.strip() for example in usable)
    if len(texts) < len(usable):
        advice = "each text is kept once, the first time it appears"
        problems.append(Problem("duplicates", len(usable) - len(texts), _shown(texts.most_common(1)[0][0]), advice))
    near = near_groups(list(dict.fromkeys(map(text_key, texts))))
    if near:
        text, first = next((text, first) for text, first in near.items() if text != first)
        advice = "counted in texts: all are used; in a split made here they stay on one side"
        problems.append(Problem("near_duplicates", len(near), f"{_shown(first)} ≈ {_shown(text)}", advice))
    contradictory = [text for text, names in labels.items() if len(names) > 1]
    if contradictory:
        example = f"{_shown(contradictory[0])}: {_label_list(labels[contradictory[0]])}"
        advice = "counted in texts: which label is right is unknown, so none of the rows is used; correct them"
        problems.append(Problem("contradictions", len(contradictory), example, advice))
    return problems


def _label_list(labels: Labellings) -> str:
    return " / ".join(sorted(", ".join(sorted(names)) for names in labels))


def _label_problems(columns: Columns, usable: Sequence[Example]) -> list[Problem]:
    written = Counter(label for example in usable for label in example.labels)
    counts: Counter[str] = Counter()
    for name, n in written.items():
        counts[name.strip()] += n
    if measures(counts):
        advice = (
            "counted in values: these numbers measure rather than name; choose another column with --label, or bin them"
        )
        return [Problem("numeric_label", len(counts), numbers_in_words(counts), advice)]
    problems = [_rename_problem(code, renames, written) for code, renames in suspects(written).items()]
    small = {name: n for name, n in sorted(counts.items()) if n < SMALLEST_CLASS}
    if small:
        advice = (
            f"counted in classes: a split needs {SMALLEST_CLASS} distinct texts of each; add rows, or under data.rename"
            ' map them to another class, or to "", which leaves them out'
        )
        example = listed(f"{name!r} in {n} {'row' if n == 1 else 'rows'}" for name, n in small.items())
        problems.append(Problem("small_class", len(small), example, advice))
    if len(counts) == 1:
        problems.append(Problem("one_class", 1, next(iter(counts)), "counted in classes: at least two are needed"))
    if len(counts) > 1:
        (largest, most), (smallest, least) = counts.most_common()[0], counts.most_common()[-1]
        if most >= IMBALANCE * least:
            weigh = (
                "" if columns.task == MULTI_LABEL else "set train.class_weights: balanced where rare ones matter, and "
            )
            advice = (
                f"counted in rows of the smallest; {weigh}judge by macro-F1: accuracy says little about rare classes"
            )
            example = f"{largest!r} {most} rows, {smallest!r} {least}"
            problems.append(Problem("imbalance", least, example, advice))
    return problems


def _rename_problem(code: str, renames: Mapping[str, str], written: Mapping[str, int]) -> Problem:
    name, meant = next(iter(renames.items()))
    example, condition = {
        "no_label_labels": (f"{name!r} says that there is no label", "if so, these rows are left out with"),
        "decimal_labels": (f"{name!r} is the whole number {meant}", "if they are classes, not measurements,"),
        "near_miss_labels": (f"{name!r} looks like {meant!r}: {difference(name, meant)}", "if they mean the same,"),
        "synonym_labels": (f"{name!r} means {meant!r}", "if the difference is not wanted,"),
    }[code]
    advice = f"{condition} put this under data in the config: rename: {_json(renames)}"
    return Problem(code, sum(written[name] for name in renames), example, advice)


def _json(document: object) -> str:
    """On one line, which is YAML too."""
    return json.dumps(document, ensure_ascii=False)


def _header_problems(tables: Sequence[Table], columns: Columns) -> list[Problem]:
    """A label column whose name is one of its own values is a file without a header."""
    (name, *others) = columns.label
    if others or columns.separator is not None or not tables[0].header:
        return []
    rows = sum(1 for table in tables for row in table.rows if (row.get(name) or "").strip() == name)
    advice = "if the first line is a row, say --no-header and name the columns by number"
    return [Problem("header_is_a_row", rows, name, advice)] if rows else []
