"""Texts to token ids: BOS once, the template around every text, head and tail of a long text kept.

Training, evaluation, predict, export and serving all call `TextTokenizer.encode`. Imports only tokenizers and numpy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from tonetune.data.template import Template
from tonetune.documents import parse_json, without_panics
from tonetune.errors import ConfigError, DataError, ModelError

CHUNK = 4096
"""Texts encoded at once: what the tokenizer says of each beside its ids takes many times their memory."""
MIDDLE, END = "middle", "end"
"""What a text over the limit loses."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of N texts. `ids[i]` is an int32 array as long as that text; `truncated[i]`: its middle was cut."""

    ids: list[NDArray[np.int32]]
    truncated: NDArray[np.bool_]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per text, shape (N,)."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)


def tokenizer_file(directory: Path) -> Path:
    """tokenizer.json of a model directory. Raises ModelError where there is none."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        others = sorted(p.name for p in directory.glob("*") if p.name.startswith(("token", "vocab", "merges")))
        raise ModelError(
            f"the model has no tokenizer.json; of a tokenizer it has {', '.join(others) or 'nothing'}",
            where=str(directory),
            hint="make one: python -c 'from transformers import AutoTokenizer as T; "
            'T.from_pretrained("FROM").save_pretrained("DIRECTORY")\', and put it beside the weights',
        )
    return path


def read_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of a model directory. Raises ModelError where tokenizer.json is absent or damaged."""
    path = tokenizer_file(directory)
    try:
        with without_panics():
            return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises a bare Exception for any damage
        raise ModelError(f"tokenizer.json cannot be read: {error}", where=str(path)) from error


def read_tokenizer_config(directory: Path) -> dict[str, Any]:
    """tokenizer_config.json of a model directory, empty where it is absent. Raises ModelError where it is damaged."""
    path = directory / "tokenizer_config.json"
    if not path.is_file():
        return {}
    try:
        return dict(parse_json(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ModelError(f"{path.name} is damaged: {error}", where=str(path)) from error


REMEMBERED = 1000
"""Pieces whose tokens the library keeps (else 10,000). Gemma's pieces are whole texts, which seldom come twice."""


class TextTokenizer:
    """Tokenizer, template and limits in one: the only place where a text becomes ids.

    The ids of one text are BOS (for families that have one), the template's prefix, the text, the template's suffix; a
    text of several turns, one a line, has the template's other parts between them.
    A prefix that itself begins with BOS, as chat templates do, gets no second one. Control tokens written inside a
    text, such as "<bos>", are read as plain characters.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        template: Template,
        bos_id: int | None,
        pad_id: int,
        max_length: int,
        cut: str = MIDDLE,
    ) -> None:
        """`max_length` is the limit in tokens, template and BOS included; `cut` is what a longer text loses. `room`
        then is what is left for the text.

        Raises ConfigError where the template alone fills it.
        """
        self.template = template
        self.bos_id = bos_id
        self.pad_id = pad_id
        self.max_length = max_length
        self.cut = cut
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.model._resize_cache(REMEMBERED)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        prefix, *others = [self._template_ids(part) for part in template.parts]
        self._head = prefix if bos_id is None or prefix[:1] == [bos_id] else [bos_id, *prefix]
        self._behind_turns = others
        self._tail = others[-1]
        self._tokenizer.post_processor = self._around_a_text()
        self._blank = [] if self._head or any(others) else self._plain(" ")
        self.room = max_length - len(self._head) - sum(map(len, others))
        if self.room < 2 * template.num_turns:
            raise ConfigError(
                [f"the template takes {max_length - self.room} of {max_length} tokens and leaves none for the text"],
                where="data.max_length",
                hint="raise data.max_length or shorten prompt.template",
            )

    @classmethod
    def read(
        cls, directory: Path, *, template: str, bos_id: int | None, pad_id: int, max_length: int
    ) -> "TextTokenizer":
        """The tokenizer of a model directory with a template, as written, around every text."""
        return cls(
            read_tokenizer(directory),
            template=Template.parse(template),
            bos_id=bos_id,
            pad_id=pad_id,
            max_length=max_length,
        )

    def to_json(self) -> str:
        """A tokenizer.json that puts BOS and template around every text, for programs that know of no templates.

        Within `max_length` its ids are those of `encode`, if control tokens inside a text are left plain; a longer text
        it cuts at its end, and keeps the template whole.
        """
        return str(self._tokenizer.to_str(pretty=True))

    def _around_a_text(self) -> TemplateProcessing:
        """What puts head and tail around a text; `encode` does that by itself and asks the tokenizer for none."""
        parts = {name: ids for name, ids in (("<head>", self._head), ("<tail>", self._tail)) if ids}
        head, tail = ([name] if name in parts else [] for name in ("<head>", "<tail>"))
        return TemplateProcessing(
            single=[*head, "$A", *tail],
            pair=[*head, "$A", "$B", *tail],
            special_tokens=[
                {"id": name, "ids": ids, "tokens": [self._tokenizer.id_to_token(i) for i in ids]}
                for name, ids in parts.items()
            ],
        )

    def _template_ids(self, text: str) -> list[int]:
        """Ids of a part of the template, where control tokens are meant as such."""
        self._tokenizer.encode_special_tokens = False
        ids = self._plain(text)
        self._tokenizer.encode_special_tokens = True
        return ids

    @property
    def around(self) -> list[list[int]]:
        """Ids of the parts around a text, or around and between its turns; the first begins with BOS."""
        return [self._head, *self._behind_turns]

    def _plain_batch(self, texts: list[str]) -> list[list[int]]:
        return [row.ids for row in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Token ids of each text, from 1 to `max_length`: a longer text loses its middle or its end, as `cut` says.

        Of several turns the longest are cut, each to the same length, so that short ones stay whole.
        An empty text without BOS and template around it is read as one blank, so that there is a state to pool.
        Raises DataError for a text that has not as many turns as the template.
        """
        return self.encode_by(self._plain_batch, texts)

    def encode_by(self, tokenize: Callable[[list[str]], list[list[int]]], texts: Sequence[str]) -> Encoded:
        """As `encode`, where the ids of plain texts are those that `tokenize` gives: to prove another tokenizer."""
        ids: list[NDArray[np.int32]] = []
        truncated: list[bool] = []
        for begin in range(0, len(texts), CHUNK):
            turns = [turn for text in texts[begin : begin + CHUNK] for turn in self._turns(text)]
            rows = tokenize(turns)
            for i in range(0, len(rows), self.template.num_turns):
                of_text = rows[i : i + self.template.num_turns]
                whole = self._within_template(of_text)
                ids.append(np.array(whole or self._blank, dtype=np.int32))
                truncated.append(sum(map(len, of_text)) > self.room)
        return Encoded(ids, np.array(truncated, dtype=np.bool_))

    def _turns(self, text: str) -> list[str]:
        if self.template.num_turns == 1:
            return [text]
        turns = text.split("\n")
        if len(turns) != self.template.num_turns:
            raise DataError(f"a text of {self.template.num_turns} turns, one a line, is expected, found {len(turns)}")
        return turns

    def _within_template(self, turns: list[list[int]]) -> list[int]:
        most = _longest_allowed(list(map(len, turns)), self.room)
        head = most if self.cut == END else most // 2
        ids = list(self._head)
        for turn, part in zip(turns, self._behind_turns, strict=True):
            ids += turn if len(turn) <= most else turn[:head] + turn[len(turn) - (most - head) :]
            ids += part
        return ids

    def word_ids(self, word: str) -> list[int]:
        """Ids of a label's word as it would follow the template, never as the start of a text."""
        spoken = self.template.spoken(word)
        ids = self._template_ids(self.template.suffix + spoken)
        behind = len(self._tail)
        return ids[behind:] if ids[:behind] == self._tail else self._plain(spoken)

    def pieces(self, word: str) -> list[str]:
        """The part of a label's word behind each of its tokens; one that takes several bytes' tokens comes as often."""
        suffix = self.template.suffix
        text = suffix + self.template.spoken(word)
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return [text[max(begin, len(suffix)) : end] for begin, end in offsets if end > len(suffix)]


def _longest_allowed(lengths: list[int], room: int) -> int:
    """The largest length to which all longer turns can be cut so that the turns fit into the room."""
    left = room
    for i, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - i)
        if length > share:
            return share
        left -= length
    return room
