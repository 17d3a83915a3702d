"""Reads a config into its schema, and says everything that does not fit at once."""

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
    """For each wrong key the errors that reach furthest into its value, by their path.

    A key that takes one of several types has an error for each; the type that got furthest is the one that was meant.
    """
    by_path = {_path(detail["loc"], values): detail for detail in details}
    depth: dict[KeyPath, int] = {}
    for path in by_path:
        depth[path[:2]] = max(depth.get(path[:2], 0), len(path))
    return {path: detail for path, detail in by_path.items() if len(path) == depth[path[:2]]}


def _path(location: Sequence[int | str], values: Any) -> KeyPath:
    """The part of pydantic's location that is a path in `values`: the names of the types it tried are left out.

    Pydantic names a key that is neither text nor a whole number by its repr.
    """
    path: KeyPath = ()
    for part in location:
        if isinstance(values, dict):
            steps = [part] if part in values else [key for key in values if repr(key) == part]
        else:
            steps = [part] if isinstance(values, tuple) and isinstance(part, int) else []
        if steps:
            values = values[steps[0]]
            path = (*path, steps[0])
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
        keys = ", ".join(sections_of(schema)[path[0]].model_fields)
        what = f"found {_shown(detail['input'])}, allowed: a section with the keys {keys}"
        hint = FOREIGN.get(path[0])
    else:
        what, hint = _wrong_value(detail["input"], path, schema)
    words = [part if isinstance(part, str) else spelled(part) for part in path]
    name = ".".join(words[:2]) + "".join(f"[{word}]" for word in words[2:])
    place = document.place(path)
    return Problem(f"{name}: {what}", place, hint) if place else Problem(what, Place(name), hint)


def _wrong_value(value: object, path: KeyPath, schema: type[BaseModel]) -> tuple[str, str]:
    key = keys_of(schema)[".".join(path[:2])]
    takes_text = len(path) > 2 or key.type.startswith("text")
    if takes_text and not isinstance(value, (str, tuple)):
        hint = "quotes around it, if it is text"
    else:
        hint = f"{spelled(key.default)}, the default"
    return f"found {_shown(value)}, allowed: {key.allowed}", hint


def _shown(value: object) -> str:
    text = spelled(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
