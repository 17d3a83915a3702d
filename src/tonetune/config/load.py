"""Reads a config into its schema, and says everything that does not fit at once."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tonetune.config.document import Document, KeyPath, Place, Problem, plain, read_document, set_value
from tonetune.config.hints import FOREIGN, hint_for
from tonetune.config.keys import keys_of, sections_of, spelled

Schema = TypeVar("Schema", bound=BaseModel)

MAX_SHOWN = 60  # characters of a wrong value that an error repeats


def load(
    schema: type[Schema], source: str | Path | Mapping[str, Any] | None, *, overrides: Sequence[str] = ()
) -> Schema:
    """The config in a file or mapping (None: all defaults) with `overrides` on top, as an object of `schema`.

    Raises ConfigError with every problem at once, in the order in which they were written.
    """
    document = _document(source)
    for override in overrides:
        set_value(document, override)
    try:
        config = schema.model_validate(document.values)
    except ValidationError as error:
        by_path = _deepest_by_key(error.errors(include_url=False), document.values)
        document.problems += [_problem(path, detail, document, schema) for path, detail in by_path.items()]
    if document.problems:
        raise Problem.error(document.problems, source=document.source)
    return config


def _document(source: str | Path | Mapping[str, Any] | None) -> Document:
    if source is None:
        return Document({})
    if isinstance(source, Mapping):
        return Document(plain(source))
    return read_document(Path(source))


def _deepest_by_key(details: Sequence[ErrorDetails], values: object) -> dict[KeyPath, ErrorDetails]:
    """For each wrong key its path and the error that reaches furthest into its value.

    A key that takes one of several types has an error for each; the one that got furthest is the one that was meant.
    """
    deepest: dict[KeyPath, tuple[KeyPath, ErrorDetails]] = {}
    for detail in details:
        path = _path(detail["loc"], values)
        known = deepest.get(path[:2])
        if known is None or len(path) > len(known[0]):
            deepest[path[:2]] = (path, detail)
    return dict(deepest.values())


def _path(location: Sequence[int | str], values: Any) -> KeyPath:
    """The part of pydantic's location that is a path in `values`: the names of the types it tried are left out."""
    path: KeyPath = ()
    for part in location:
        is_item = isinstance(values, tuple) and isinstance(part, int) and part < len(values)
        if is_item or (isinstance(values, dict) and part in values):
            values = values[part]
            path = (*path, part)
    return path


def _problem(path: KeyPath, detail: ErrorDetails, document: Document, schema: type[BaseModel]) -> Problem:
    """What is wrong at `path`, as a sentence for a person."""
    kind = detail["type"]
    if kind == "rule":
        path = (*path, detail["ctx"]["word"])
        what, hint = detail["msg"], None
    elif kind in ("extra_forbidden", "invalid_key"):
        section = path[0] if len(path) > 1 else None
        is_section = isinstance(detail["input"], dict)
        what, hint = "unknown key", hint_for(str(path[-1]), section, keys_of(schema), is_section=is_section)
    elif len(path) == 1:
        words = ", ".join(sections_of(schema)[path[0]].model_fields)
        what = f"found {_shown(detail['input'])}, allowed: a section with the keys {words}"
        hint = FOREIGN.get(path[0])
    else:
        what, hint = _wrong_value(detail["input"], ".".join(path[:2]), schema)
    name = ".".join(map(str, path[:2])) + "".join(f"[{part}]" for part in path[2:])
    place = document.place(path)
    return Problem(f"{name}: {what}", place, hint) if place else Problem(what, Place(name), hint)


def _wrong_value(value: object, name: str, schema: type[BaseModel]) -> tuple[str, str]:
    key = keys_of(schema)[name]
    is_scalar_or_slot = value is not None and not isinstance(value, (str, tuple))
    if "text" in key.type and is_scalar_or_slot:
        hint = "quotes around it, if it is text"
    else:
        hint = f"{spelled(key.default)}, the default"
    return f"found {_shown(value)}, allowed: {key.allowed}", hint


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
