"""Which columns hold the text and the label, by their names and by what is in them, and what task that makes."""

import difflib
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from tonetune.data.readers import Cells, Table
from tonetune.errors import DataError, listed
from tonetune.labels import all_numbers

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
INDICATOR_COLUMNS = 3  # fewest columns of 0 and 1 that are read as one label each
SEPARATORS = (",", ";", "|")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


@dataclass(frozen=True)
class Profile:
    """What a column holds, over its cells that are not blank. `mean_characters` is per cell."""

    name: str
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
    def is_indicator(self) -> bool:
        return bool(self.values) and set(self.values) <= {"0", "1"}


@dataclass(frozen=True)
class Columns:
    """The columns found. `label` has several names where each class is a column of 0 and 1.

    `text` is None or `label` empty where that is uncertain; `candidates` then says what they could be, each
    {"role": "text" | "label", "column", "distinct", "mean_characters"}.
    `task` is "binary", "single-label", "multi-label" or, without a label, None. `separator` stands between the labels
    of one cell ("json" where the cell is a JSON list) and is None where a cell is one label.
    """

    text: str | None
    label: tuple[str, ...]
    task: str | None
    separator: str | None
    candidates: tuple[dict[str, object], ...]

    @property
    def certain(self) -> bool:
        return self.text is not None and bool(self.label)

    def uncertainty(self, table: Table) -> DataError:
        """The error that asks for the column that is uncertain in `table`, naming the candidates."""
        role = "text" if self.text is None else "label"
        names = [str(c["column"]) for c in self.candidates if c["role"] == role]
        shown = listed(names) if names else f"none; the columns are {listed(table.columns)}"
        return DataError(
            f"which column is the {role}? candidates: {shown}",
            where=str(table.path),
            hint=f"name it with --{role} COLUMN or data.{role}",
        )

    def labels_of(self, row: Cells) -> tuple[str, ...] | None:
        """The labels of a row as written in it; None where the row says nothing, its cells being blank."""
        cells = [row.get(name) or "" for name in self.label]
        if not any(cell.strip() for cell in cells):
            return None
        if len(self.label) > 1:
            return tuple(name for name, cell in zip(self.label, cells, strict=True) if cell.strip() == "1")
        return (cells[0],) if self.separator is None else _pieces(cells[0], self.separator)


def find_columns(table: Table, *, text: str, label: str) -> Columns:
    """Find the text and the label column of `table`; a name other than "auto" is taken as it is.

    Raises DataError for a named column that the table lacks.
    """
    for name, option in ((text, "--text"), (label, "--label")):
        if name != AUTO:
            require_column(table, name, option=option)
    profiles = _profiles(table)
    indicators = [p for p in profiles if p.is_indicator] if label == AUTO else []
    texts = (
        [p for p in profiles if p.name == text]
        if text != AUTO
        else _find_text([p for p in profiles if p.name != label])
    )
    text_name = texts[0].name if len(texts) == 1 else None
    others = [p for p in profiles if p.name not in {t.name for t in texts}]
    labels = _find_label(others, indicators) if label == AUTO else [p for p in profiles if p.name == label]
    is_indicators = len(labels) > 1 and labels == indicators
    label_names = tuple(p.name for p in labels) if len(labels) == 1 or is_indicators else ()
    separator = _separator(labels[0].values) if len(label_names) == 1 else None
    candidates = [] if text_name is not None else [_candidate("text", p) for p in texts or profiles]
    candidates += [] if label_names else [_candidate("label", p) for p in labels or others]
    return Columns(
        text=text_name,
        label=label_names,
        task=_task(labels, separator) if label_names else None,
        separator=separator,
        candidates=tuple(candidates),
    )


def require_columns(table: Table, *, text: str, label: str) -> Columns:
    """As `find_columns`. Raises DataError where a column is uncertain, with the candidates."""
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
    step = math.ceil(len(table) / PROFILE_ROWS) or 1
    values: dict[str, list[str]] = {name: [] for name in table.columns}
    for row in table.rows[::step]:
        for name, cell in row.items():
            if value := (cell or "").strip():
                values[name].append(value)
    return [_profile(name, found) for name, found in values.items()]


def _profile(name: str, values: Sequence[str]) -> Profile:
    count = len(values) or 1
    return Profile(
        name=name,
        values=tuple(values),
        distinct=len(set(values)),
        mean_characters=sum(map(len, values)) / count,
        numeric=all_numbers(values),
        wordy=sum(1 for v in values if len(v.split()) > 1 or len(IDEOGRAPHS.findall(v)) > 3) / count,
    )


def _find_text(profiles: Sequence[Profile]) -> list[Profile]:
    """One column where it is clear, else every one it could be."""
    named = [p for p in profiles if _last_part(p.name) in TEXT_NAMES and not p.numeric]
    filled = [p for p in named if p.values]
    found = filled or [p for p in profiles if p.is_text] or named
    ranked = sorted(found, key=lambda p: p.mean_characters, reverse=True)
    if len(ranked) > 1 and ranked[0].mean_characters >= CLEARLY_LONGER * ranked[1].mean_characters:
        return ranked[:1]
    return found


def _find_label(profiles: Sequence[Profile], indicators: Sequence[Profile]) -> list[Profile]:
    """One column or all indicator columns where it is clear, else every one it could be."""
    for names in (LABEL_NAMES, RATING_NAMES):
        named = [p for p in profiles if _last_part(p.name) in names and p.may_be_label]
        if named:
            return named
    if len(indicators) >= INDICATOR_COLUMNS:
        return list(indicators)
    return [p for p in profiles if p.looks_like_label]


def _separator(values: Sequence[str]) -> str | None:
    """What separates the labels in a cell: fewer distinct pieces than distinct cells show that cells combine them."""
    distinct = set(values)
    if distinct and all(v.startswith("[") and v.endswith("]") for v in distinct):
        return "json"
    for separator in SEPARATORS:
        if any(separator in v for v in distinct):
            pieces = {piece for v in distinct for piece in _pieces(v, separator)}
            if len(pieces) < len(distinct):
                return separator
    return None


def _pieces(cell: str, separator: str) -> tuple[str, ...]:
    if separator != "json":
        return tuple(piece.strip() for piece in cell.split(separator) if piece.strip())
    try:
        items = json.loads(cell) if cell.strip() else []
    except json.JSONDecodeError:
        items = [piece.strip().strip("'\"") for piece in cell.strip()[1:-1].split(",")]  # as Python writes a list
    return tuple(str(item) for item in items if str(item).strip())


def _task(labels: Sequence[Profile], separator: str | None) -> str:
    if len(labels) > 1 or separator is not None:
        return "multi-label"
    return "binary" if labels[0].distinct == 2 else "single-label"


def _candidate(role: str, profile: Profile) -> dict[str, object]:
    return {
        "role": role,
        "column": profile.name,
        "distinct": profile.distinct,
        "mean_characters": round(profile.mean_characters, 1),
    }
