"""Names for label codes, from a file of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tonetune.data.readers.encodings import read_text
from tonetune.data.readers.files import split_lines
from tonetune.errors import DataError, listed
from tonetune.labels import all_numbers


@dataclass(frozen=True)
class Codebook:
    """Names of label codes. Codes that are equal as numbers are one code: 1 and 1.0."""

    path: Path
    names: Mapping[str, str]

    def name(self, code: str, *, origin: str) -> str:
        """The name of a code. Raises DataError, naming `origin`, for a code without one."""
        key = _key(code)
        if key not in self.names:
            raise DataError(
                f"label code {code.strip()!r} is not in {self.path}; its codes are {listed(self.names)}",
                where=origin,
                hint="add a line to it: code, tab, name",
            )
        return self.names[key]


def read_codebook(path: Path) -> Codebook:
    """Names from lines of code, tab and name, or from one name a line, whose codes then count from 0.

    Raises DataError for a file that mixes both, repeats a code or is empty.
    """
    lines = [line.split("\t") for line in split_lines(read_text(path, encoding=None).text) if line.strip()]
    widths = {len(cells) for cells in lines}
    if widths == {1}:
        lines = [[str(code), name] for code, (name,) in enumerate(lines)]
    elif widths != {2}:
        hint = "each line is code, tab, name, or each is a name alone"
        raise DataError(
            "the lines of the codebook are not all alike" if lines else "the codebook is empty",
            where=str(path),
            hint=hint,
        )
    names = {_key(code): name.strip() for code, name in lines}
    if len(names) != len(lines):
        raise DataError("the codebook has a code twice", where=str(path), hint="leave one of the lines out")
    return Codebook(path, names)


def _key(code: str) -> str:
    code = code.strip()
    return f"{float(code):g}" if all_numbers([code]) else code
