"""The keys of a config, read from its schema: docs, help, starter file and error messages all come from here."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

WORDS: dict[Any, tuple[str, ...]] = {
    int: ("whole number",),
    float: ("number",),
    str: ("text",),
    bool: ("true", "false"),
    NoneType: ("null",),
}
SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@dataclass(frozen=True)
class Key:
    """One key: its dotted name, default, the values it takes in words, their bounds in words, and its meaning."""

    name: str
    default: object
    type: str
    bounds: str
    help: str

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def word(self) -> str:
        """The name without its section."""
        return self.name.partition(".")[2]

    @property
    def allowed(self) -> str:
        """Type and bounds, for an error message."""
        return f"{self.type}, {self.bounds}" if self.bounds else self.type


@cache
def keys_of(schema: type[BaseModel]) -> dict[str, Key]:
    """Every key of a schema of sections, by dotted name, in the order of the schema."""
    keys = (
        Key(
            name=f"{section}.{word}",
            default=field.default,
            type=_type_words(field.annotation),
            bounds=", ".join(dict.fromkeys(_bounds(field))),
            help=field.description or "",
        )
        for section, model in sections_of(schema).items()
        for word, field in model.model_fields.items()
    )
    return {key.name: key for key in keys}


def sections_of(schema: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections of a schema by name."""
    annotations = {name: field.annotation for name, field in schema.model_fields.items()}
    return {name: a for name, a in annotations.items() if isinstance(a, type) and issubclass(a, BaseModel)}


def spelled(value: object) -> str:
    """A value as one writes it in YAML on one line, whatever it is."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{spelled(key)}: {spelled(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(spelled, value))}]"
    if isinstance(value, str) and value.isidentifier() and value.lower() not in ("true", "false", "null"):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _type_words(annotation: Any) -> str:
    *others, last = _alternatives(annotation)
    return f"{', '.join(others)} or {last}" if others else last


def _alternatives(annotation: Any) -> Iterator[str]:
    """Each kind of value that a type takes, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _alternatives(arguments[0])
    elif origin is Literal:
        yield from map(str, arguments)
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _alternatives(argument)
    elif origin is tuple:
        yield f"list of {_type_words(arguments[0])}"
    elif origin is dict:
        yield f"mapping of {_type_words(arguments[0])} to {_type_words(arguments[1])}"
    else:
        yield from WORDS[annotation]


def _bounds(annotated: Any) -> Iterator[str]:
    """Bounds of a field or of an alternative of its type; those of the items of a list go without saying."""
    if isinstance(annotated, FieldInfo):
        for constraint in annotated.metadata:
            yield from _bound(constraint)
        yield from _bounds(annotated.annotation)
    elif get_origin(annotated) not in (tuple, dict):
        for part in get_args(annotated):
            yield from _bounds(part)


def _bound(constraint: object) -> Iterator[str]:
    for name, sign in SIGNS.items():
        if hasattr(constraint, name):
            yield f"{sign} {getattr(constraint, name)}"
    if hasattr(constraint, "min_length"):
        yield "not empty" if constraint.min_length == 1 else f"at least {constraint.min_length} items"
