"""Which columns hold the text and the label, by their names and by what is in them, and what task that makes."""

import difflib
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tonetune.data.label_cells import find_separator, is_false, is_true, pieces_of, truth_style
from tonetune.data.readers import Cells, Table
from tonetune.errors import DataError, UncertainError, listed
from tonetune.labels import MULTI_LABEL, all_numbers

AUTO = "auto"
TEXT_WORDS = (
    "text texts sentence sentences content contents review reviews reviewtext comment comments tweet tweets message"
    " body utterance document post 文本 文字 内容 內容 正文 句子 评论 評論 评价 評價 留言 微博 微博中文内容 弹幕 文章"
    " texto texte textes avis comentario comentário kommentar текст отзыв テキスト 本文 レビュー 텍스트 문장 리뷰 내용"
)
LABEL_WORDS = (
    "label labels target targets sentiment sentiments emotion emotions category categories class classes polarity"
    " gold annotation 标签 標籤 标注 情感 情绪 情緒 情感倾向 情感标签 情绪标签 类别 類別 分类 分類 类型 极性"
    " etiqueta étiquette emoción emoção sentimento sentimiento émotion stimmung метка эмоция класс"
    " ラベル 感情 라벨 레이블 감정"
)
RATING_WORDS = "rating ratings star stars score scores 评分 評分 星级 星級 打分 оценка note calificación bewertung"
TEXT_NAMES = frozenset(TEXT_WORDS.split())
LABEL_NAMES = frozenset(LABEL_WORDS.split())
RATING_NAMES = frozenset(RATING_WORDS.split())  # the label only where no column is named as one
PROFILE_ROWS = 20_000
NUMERIC_LABELS = 20  # a numeric column with more distinct values measures something
CONTENT_LABELS = 50  # most distinct values of a column that is taken for the label without its name saying so
LABEL_CHARACTERS = 40
CLEARLY_LONGER = 3.0  # times the mean length of every other text-like column
CLASS_COLUMNS = 3  # fewest columns of truths that are read as one label each
PROFILE_CHARACTERS = 1000  # of a cell show whether it has words
NAME_WORDS = 6  # a longer name of a column is a text
NAME_IDEOGRAPHS = 12
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


@dataclass(frozen=True)
class Profile:
    """What a column holds in the `rows` that were looked at: its cells that are not blank; a mean is per cell."""

    name: str
    rows: int
    values: tuple[str, ...]
    distinct: int
    mean_characters: float
    numeric: bool
    wordy: float  # share of cells with several words, or with a script that writes none apart

    @property
    def is_text(self) -> bool:
        return not self.numeric and self.wordy >= 0.3 and self.distinct >= 0.3 * len(self.values)

    @property
    def may_be_label(self) -> bool:
        """Whether a column whose name says "label" can be one."""
        return bool(self.values) and not (self.numeric and self.distinct > NUMERIC_LABELS)

    @property
    def looks_like_label(self) -> bool:
        """Whether a column can be the label by its content alone."""
        short = max(map(len, self.values), default=0) <= LABEL_CHARACTERS
        return self.may_be_label and short and 2 <= self.distinct <= min(CONTENT_LABELS, len(self.values) / 2)

    @property
    def truth_style(self) -> str | None:
        """The word for true where the cells are truths, some of them not true."""
        style = truth_style(self.values, self.name)
        constant = self.distinct == 1 and len(self.values) == self.rows
        if style is None or (constant and is_true(self.values[0], self.name, origin=None)):
            return None
        return style

    @property
    def named_by_text(self) -> bool:
        """Whether the name of the column is itself a text."""
        return len(self.name.split()) > NAME_WORDS or len(IDEOGRAPHS.findall(self.name)) > NAME_IDEOGRAPHS


@dataclass(frozen=True)
class Columns:
    """The columns found. `text` has several names where a row is several turns, `label` where each class is a column.

    `candidates` is empty where the columns are certain. Otherwise it says what could be meant, each
    {"role": "header" | "text" | "label", "column", "distinct", "mean_characters"}, and `text` or `label` may be empty.
    `task` is "binary", "single-label", "multi-label" or, without a label, None. `separator` stands between the labels
    of one cell ("json" where the cell is a list) and is None where a cell is one label. `blank_is_false`: no cell of
    the label columns says false but by being blank, so that blank ones say that no label applies.
    """

    text: tuple[str, ...]
    label: tuple[str, ...]
    task: str | None = None
    separator: str | None = None
    blank_is_false: bool = False
    candidates: tuple[dict[str, object], ...] = ()

    @property
    def certain(self) -> bool:
        return not self.candidates

    def uncertainty(self, table: Table) -> UncertainError:
        """The error that asks for what is uncertain in `table`, naming the candidates."""
        role = str(self.candidates[0]["role"])
        names = [str(c["column"]) for c in self.candidates if c["role"] == role]
        what, hint = f"which column is the {role}? candidates: {listed(names)}", f"name it with --{role} COLUMN"
        if role == "text" and len(names) > 1:
            hint += ", or repeat it for the turns of a chat, in their order"
        if role == "header":
            what = f"is the first row a header? {listed(map(repr, names))} in it could be part of a row"
            hint = "say --no-header and name the columns by number, or name them as they are with --text and --label"
        elif role == "label" and set(names) <= set(self.text):
            what = f"there is no column for the label beside {listed(self.text)}"
            hint = "name a file of labels with --label-file, or the delimiter between text and label with --delimiter"
        return UncertainError(what, candidates=self.candidates, where=str(table.path), hint=hint)

    def labels_of(self, row: Cells, *, origin: str | None = None) -> tuple[str, ...] | None:
        """The labels of a row as written in it; None where the row says nothing, its cells being blank.

        Raises DataError, with `origin`, where each class is a column and a cell says neither true nor false.
        """
        cells = [row.get(name) or "" for name in self.label]
        if not any(cell.strip() for cell in cells):
            return () if self.blank_is_false else None
        if len(self.label) == 1:
            return (cells[0],) if self.separator is None else pieces_of(cells[0], self.separator)
        truths = [is_true(cell, column, origin=origin) for column, cell in zip(self.label, cells, strict=True)]
        return tuple(name for name, true in zip(self.class_names, truths, strict=True) if true)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes that are columns: the last parts of their dotted paths, where those differ."""
        names = tuple(column.rsplit(".", 1)[-1] for column in self.label)
        return names if len(set(names)) == len(names) else self.label


NO_COLUMNS = Columns((), ())


def find_columns(table: Table, *, text: str | Sequence[str], label: str | Sequence[str]) -> Columns:
    """Find the text and the label columns of `table`; names other than "auto" are taken as they are.

    Raises DataError for a named column that the table lacks, and where several label columns are named and a cell says
    neither true nor false.
    """
    named_text, named_label = _named(table, text, "--text"), _named(table, label, "--label")
    profiles = _profiles(table)
    free = [p for p in profiles if p.name not in {*named_text, *named_label}]
    texts = [] if named_text else _find_text(free)
    text_names = named_text or tuple(p.name for p in texts if len(texts) == 1)
    others = [p for p in free if p.name not in {t.name for t in texts}]
    labels = [] if named_label else _find_label(others)
    label_names = named_label or tuple(p.name for p in labels if len(labels) == 1 or _are_classes(labels))
    found = [p for p in (*texts, *labels) if p.name in {*text_names, *label_names}]
    candidates = [
        *_candidates("header", [p for p in found if _names_a_row(p, table)]),
        *_candidates("text", [] if text_names else texts or free or profiles),
        *_candidates("label", [] if label_names else labels or others or profiles),
    ]
    columns = Columns(text_names, label_names, candidates=tuple(candidates))
    return _with_labels(columns, table, [p for p in profiles if p.name in label_names]) if label_names else columns


def find_text_columns(table: Table, *, text: str | Sequence[str]) -> tuple[str, ...]:
    """The text columns of a table whose labels, if it has any, are of no interest; an only column is the text.

    Raises DataError for a named column that the table lacks, UncertainError where the column is uncertain.
    """
    if named := _named(table, text, "--text"):
        return named
    profiles = _profiles(table)
    texts = _find_text(profiles)
    found = texts if len(texts) == 1 else profiles if len(profiles) == 1 else []
    in_a_row = [p for p in profiles if (p in found or p.looks_like_label) and _names_a_row(p, table)]
    candidates = [*_candidates("header", in_a_row), *_candidates("text", [] if found else texts or profiles)]
    if candidates:
        raise Columns((), (), candidates=tuple(candidates)).uncertainty(table)
    return (found[0].name,)


def _named(table: Table, names: str | Sequence[str], option: str) -> tuple[str, ...]:
    """The columns that are named, () for "auto". Raises DataError for one that the table lacks."""
    named = (names,) if isinstance(names, str) else tuple(names)
    if named == (AUTO,):
        return ()
    for name in named:
        require_column(table, name, option=option)
    return named


def _names_a_row(profile: Profile, table: Table) -> bool:
    """Whether what a header calls this column, which was found by its content, looks like a cell of a row."""
    known = _last_part(profile.name) in TEXT_NAMES | LABEL_NAMES | RATING_NAMES
    return table.header and not known and (profile.named_by_text or profile.name in profile.values)


def _with_labels(columns: Columns, table: Table, profiles: Sequence[Profile]) -> Columns:
    """The columns with how their cells say labels, and the task that this makes."""
    if len(profiles) == 1:
        separator = find_separator(profiles[0].values)
        if separator is None:
            return replace(columns, task="binary" if profiles[0].distinct == 2 else "single-label")
        columns = replace(columns, separator=separator)
    else:
        columns = replace(columns, blank_is_false=not any(is_false(value) for p in profiles for value in p.values))
    labels = [
        columns.labels_of(row, origin=f"{table.path}:{line}")
        for row, line in zip(table.rows, table.lines, strict=True)
        if line not in table.overlong
    ]
    if any(names is not None and len(names) != 1 for names in labels):
        return replace(columns, task=MULTI_LABEL)
    return replace(columns, task="binary" if len(set(labels) - {None}) == 2 else "single-label")


def require_columns(table: Table, *, text: str | Sequence[str], label: str | Sequence[str]) -> Columns:
    """As `find_columns`. Raises UncertainError, with the candidates, where a column is uncertain."""
    columns = find_columns(table, text=text, label=label)
    if not columns.certain:
        raise columns.uncertainty(table)
    return columns


def require_column(table: Table, name: str, *, option: str) -> None:
    """Raises DataError, listing the columns and the nearest name, where `table` has no column `name`."""
    if name in table.columns:
        return
    by_folded_name = {_folded(column): column for column in table.columns}
    close = difflib.get_close_matches(_folded(name), list(by_folded_name), n=1)
    raise DataError(
        f"no column {name!r}; found: {listed(table.columns)}",
        where=str(table.path),
        hint=f"did you mean {option} {by_folded_name[close[0]]}?" if close else f"name one of them with {option}",
    )


def _folded(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", unicodedata.normalize("NFKC", name).casefold())


def _last_part(name: str) -> str:
    return _folded(name.rsplit(".", 1)[-1])


def _profiles(table: Table) -> list[Profile]:
    """One profile a column, in a single pass over the cells that the rows hold."""
    rows = table.rows[:: math.ceil(len(table) / PROFILE_ROWS) or 1]
    values: dict[str, list[str]] = {name: [] for name in table.columns}
    for row in rows:
        for name, cell in row.items():
            if value := (cell or "").strip():
                values[name].append(value)
    return [_profile(name, found, len(rows)) for name, found in values.items()]


def _profile(name: str, values: Sequence[str], rows: int) -> Profile:
    count = len(values) or 1
    return Profile(
        name=name,
        rows=rows,
        values=tuple(values),
        distinct=len(set(values)),
        mean_characters=sum(map(len, values)) / count,
        numeric=all_numbers(values),
        wordy=sum(map(_has_words, values)) / count,
    )


def _has_words(value: str) -> bool:
    shown = value[:PROFILE_CHARACTERS]
    return len(shown.split(maxsplit=1)) > 1 or len(IDEOGRAPHS.findall(shown)) > 3


def _find_text(profiles: Sequence[Profile]) -> list[Profile]:
    """One column where it is clear, else every one it could be."""
    named = [p for p in profiles if _last_part(p.name) in TEXT_NAMES and not p.numeric]
    filled = [p for p in named if p.values]
    found = filled or [p for p in profiles if p.is_text] or named
    ranked = sorted(found, key=lambda p: p.mean_characters, reverse=True)
    if len(ranked) > 1 and ranked[0].mean_characters >= CLEARLY_LONGER * ranked[1].mean_characters:
        return ranked[:1]
    return found


def _find_label(profiles: Sequence[Profile]) -> list[Profile]:
    """One column, or all columns that say one label each in one style, where it is clear; else each it could be."""
    for names in (LABEL_NAMES, RATING_NAMES):
        named = [p for p in profiles if _last_part(p.name) in names and p.may_be_label]
        if named:
            return named
    by_style: dict[str, list[Profile]] = defaultdict(list)
    for profile in profiles:
        if style := profile.truth_style:
            by_style[style].append(profile)
    classes = [group for group in by_style.values() if len(group) >= CLASS_COLUMNS]
    return [p for group in classes for p in group] or [p for p in profiles if p.looks_like_label]


def _are_classes(profiles: Sequence[Profile]) -> bool:
    styles = {profile.truth_style for profile in profiles}
    return len(profiles) >= CLASS_COLUMNS and len(styles) == 1 and None not in styles


def _candidates(role: str, profiles: Iterable[Profile]) -> list[dict[str, object]]:
    return [
        {"role": role, "column": p.name, "distinct": p.distinct, "mean_characters": round(p.mean_characters, 1)}
        for p in profiles
    ]
