"""Documents from anywhere: what is damaged, too deep or no number is one kind of error, and so is a library's panic."""

import contextlib
import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def parse_json(text: str, *, numbers_only: bool = False) -> Any:
    """The value of a JSON text. Raises ValueError for damage, brackets nested too deeply and endless numbers.

    With `numbers_only` it is raised for NaN and Infinity too, which Python's reader takes and JSON does not have.
    """
    try:
        return json.loads(text, parse_constant=_refuse if numbers_only else None)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def typed_json(kind: type[T], text: str) -> T:
    """A JSON text as an object of a dataclass, every field of the type that its annotation names and within its bounds.

    Raises ValueError, naming the first field that is not.
    """
    from pydantic import ValidationError

    known: Any = kind
    try:
        value: T = _reader(known).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return value


@cache
def _reader(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@contextlib.contextmanager
def without_panics() -> Iterator[None]:
    """Turn a panic of a library in Rust, which is no Exception to Python and would pass every handler, into a
    RuntimeError. Each library has a class of its own for it, of the same name.
    """
    try:
        yield
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the library that reads it gave up: {str(panic)[:200]}") from panic
