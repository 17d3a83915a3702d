"""A config as plain values, each with the place where a person wrote it: a line of a file or a --set option."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, DocumentStartEvent, NodeEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tonetune.errors import ConfigError

MAX_DEPTH = 16
MERGE_TAG = "tag:yaml.org,2002:merge"

KeyPath = tuple[Any, ...]


@dataclass(frozen=True)
class Place:
    """Where something was written: a file and its line from 1, a --set option, or the dotted name of a key."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a config: the sentence, its place, and what to write instead."""

    what: str
    where: Place
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f" (try: {self.hint})" if self.hint else "")

    @staticmethod
    def error(problems: Sequence["Problem"], *, source: str | None = None) -> ConfigError:
        """All problems as one error, those of a file by line; `source` is the place of the whole."""
        if len(problems) == 1:
            (only,) = problems
            return ConfigError([str(only)], what=only.what, where=str(only.where), hint=only.hint)
        by_line = sorted(problems, key=lambda problem: (problem.where.line is None, problem.where.line or 0))
        return ConfigError([str(problem) for problem in by_line], where=source)


@dataclass
class Document:
    """Values of a config by section and key.

    `places` maps the path of a value, such as ("lora", "rank"), to the place where it was written; it is empty for a
    config that was not written down. `problems` holds what the text itself does wrong.
    """

    values: dict[Any, Any]
    places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    source: str | None = None

    def place(self, path: KeyPath) -> Place | None:
        """Place of the value at `path`, or of the nearest value around it."""
        return next((self.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.places), None)

    def put(self, path: KeyPath, value: object, place: Place) -> None:
        """Set the value of a key, or of a section, in place of what is there; a section that is no mapping stays."""
        for known in [known for known in self.places if known[: len(path)] == path]:
            del self.places[known]
        self.places[path] = place
        section = self.values.setdefault(path[0], {}) if len(path) > 1 else self.values
        if isinstance(section, dict):
            section[path[-1]] = value


def plain(value: object) -> Any:
    """A value with tuples for sequences and text for paths, as the reader of a file makes it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    return os.fspath(value) if isinstance(value, Path) else value


def read_document(path: Path) -> Document:
    """The YAML 1.2 file at `path`. Raises ConfigError where it is absent, not UTF-8 or not a mapping in plain YAML."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        hint = "tonetune train --init FILE.yaml writes a starter file"
        raise _refusal("no such config file", Place(str(path)), hint) from None
    except OSError as error:
        raise _refusal(f"cannot be read: {error.strerror}", Place(str(path))) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise _refusal("not UTF-8 text", Place(str(path), line), "save the file as UTF-8") from None
    document = Document({}, source=str(path))
    values = _Reader(document, str(path), first_line=1).read(text)
    if values is not None and not isinstance(values, dict):
        what = f"a config is a mapping of sections, not a {_word_for(values)}"
        raise _refusal(what, Place(str(path), 1), "write a section and its keys, such as lora: {rank: 16}")
    document.values = values or {}
    return document


def set_value(document: Document, override: str) -> None:
    """Set one value from `section.key=value`, the right side in YAML; `section={key: value}` sets several.

    What is wrong with it joins the problems of the document.
    """
    place = Place(f"--set {override}")
    name, equals, text = override.partition("=")
    path = tuple(name.strip().split(".", 1))
    if not equals or not name.strip():
        document.problems.append(Problem("an override is written key=value", place, "--set lora.rank=16"))
        return
    written = Document({})
    try:
        value = _Reader(written, place.source, first_line=None).read(text)
    except ConfigError as error:
        document.problems.append(Problem(error.what, place, error.hint))
        return
    document.problems += written.problems
    if len(path) == 1 and isinstance(value, dict):
        for word, item in value.items():
            document.put((*path, word), item, place)
    else:
        document.put(path, value, place)


def dump(values: Mapping[str, object]) -> str:
    """Plain values as YAML 1.2 text, in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares it None
    yaml.width = 10**9
    buffer = io.StringIO()
    yaml.dump(values, buffer)
    return buffer.getvalue()


class _Reader:
    """Reads one YAML text into plain values, noting in `document` where each one stands."""

    def __init__(self, document: Document, source: str, *, first_line: int | None) -> None:
        self.document = document
        self.source = source
        self.first_line = first_line
        self.yaml = YAML(typ="safe", pure=True)

    def place(self, mark: Any) -> Place:
        if self.first_line is None or mark is None:
            return Place(self.source)
        return Place(self.source, self.first_line + mark.line)

    def read(self, text: str) -> Any:
        """Values of `text`; None for a text without any. Raises ConfigError for what is not plain YAML."""
        try:
            self._refuse_all_but_plain_yaml(text)
            node = self.yaml.compose(text)
        except MarkedYAMLError as error:
            what = f"broken YAML: {' '.join(str(error.problem or error.context).split())}"
            hint = "indent with spaces, not tabs" if "\\t" in what else "put text with special characters in quotes"
            raise _refusal(what, self.place(error.problem_mark or error.context_mark), hint) from None
        except YAMLError as error:
            raise _refusal(f"broken YAML: {str(error).splitlines()[0]}", Place(self.source)) from None
        return None if node is None else self._value(node, ())

    def _refuse_all_but_plain_yaml(self, text: str) -> None:
        depth = 0
        for event in self.yaml.parse(text):
            place = self.place(event.start_mark)
            if isinstance(event, DocumentStartEvent) and event.version not in (None, (1, 2)):
                raise _refusal("a config is YAML 1.2", place, "delete the %YAML line")
            if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
                raise _refusal("anchors (&) and aliases (*) are not allowed", place, "write the value out")
            if getattr(event, "tag", None) is not None:
                raise _refusal(f"tags such as {event.tag} are not allowed", place, "write the plain value")
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _refusal(f"nested more than {MAX_DEPTH} deep", place, "a config is sections of keys")

    def _value(self, node: Node, path: KeyPath) -> Any:
        if isinstance(node, MappingNode):
            return dict(self._items(node, path))
        if isinstance(node, SequenceNode):
            return tuple(self._item(child, (*path, i)) for i, child in enumerate(node.value))
        return self._scalar(node)

    def _items(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[Any, Any]]:
        first_places: dict[Any, Place] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node.start_mark)
            if not isinstance(key_node, ScalarNode):
                raise _refusal("a key is a word, not a list or a mapping", place)
            key = self._scalar(key_node)
            if key in first_places:
                what = f"{'.'.join(map(str, (*path, key)))} is given twice, first at {first_places[key]}"
                self.document.problems.append(Problem(what, place, "keep one of the two"))
                continue
            first_places[key] = place
            self.document.places[(*path, key)] = place
            yield key, self._value(value_node, (*path, key))

    def _item(self, node: Node, path: KeyPath) -> Any:
        self.document.places[path] = self.place(node.start_mark)
        return self._value(node, path)

    def _scalar(self, node: Node) -> Any:
        if node.tag == MERGE_TAG:  # << merges nothing here: without aliases it is a key like any other
            return node.value
        try:
            return self.yaml.constructor.construct_object(node)
        except ValueError as error:
            what = f"{node.value[:40]} cannot be read: {error}"
            raise _refusal(what, self.place(node.start_mark), "put it in quotes if it is text") from None


def _refusal(what: str, place: Place, hint: str | None = None) -> ConfigError:
    return Problem.error([Problem(what, place, hint)])


def _word_for(value: object) -> str:
    return "list" if isinstance(value, tuple) else "single value"
