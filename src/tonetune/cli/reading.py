"""The flags that say how files are read: one set for every verb that reads files."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from tonetune.data.readers import ReadOptions

Verb = TypeVar("Verb", bound=Callable[..., None])

FLAGS: dict[str, tuple[Any, object]] = {
    "encoding": (
        Annotated[str | None, typer.Option("--encoding", help="Encoding, instead of the one detected.")],
        None,
    ),
    "delimiter": (
        Annotated[str | None, typer.Option("--delimiter", help="Delimiter, instead of the one detected; or none.")],
        None,
    ),
    "no_header": (
        Annotated[bool, typer.Option("--no-header", help="The first line is a row; columns are numbers from 1.")],
        False,
    ),
    "sheet": (Annotated[str | None, typer.Option("--sheet", help="Sheet of a workbook: its name or number.")], None),
    "label_file": (
        Annotated[Path | None, typer.Option("--label-file", help="File with the label of each row, one a line.")],
        None,
    ),
    "codebook": (
        Annotated[
            Path | None,
            typer.Option("--codebook", help="Names of label codes: code<TAB>name, or names in the order of the codes."),
        ],
        None,
    ),
}
"""Type and default of each flag, by the name of the verb's parameter."""


def reads_files(verb: Verb) -> Verb:
    """Give a verb the flags above, and call it with what they say as its argument `options`, a ReadOptions."""
    signature = inspect.signature(verb)
    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in FLAGS.items()
    ]

    @functools.wraps(verb)
    def with_options(**given: Any) -> None:
        said = {name: given.pop(name) for name in FLAGS}
        verb(**given, options=_options(**said))

    with_options.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in (*own, *flags)} | {"return": None}
    return with_options  # type: ignore[return-value]


def _options(*, no_header: bool, **said: Any) -> "ReadOptions":
    from tonetune.data.readers import ReadOptions

    return ReadOptions(header=not no_header, **said)
