"""The header of a GGUF file: its metadata and its tensors' shapes, without its vocabulary, in a fraction of a second.

The gguf package's own reader makes objects of all 262,144 words of a Gemma, which takes most of a minute; this one
walks past lists of words. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tonetune.errors import MissingExtraError, ModelError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
FLOAT32, FLOAT16 = 0, 1
AGAIN = "fetch the file again"


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: its shape with rows first, ggml's number of its type, and where its data begins in the file."""

    shape: tuple[int, ...]
    type: int
    begins_at: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself. A list of words is None in `metadata`."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture"))

    @property
    def summary(self) -> str:
        """What is in the file, for a person: "gemma3 (Gemma 3 270m, 18 layers)"."""
        name, layers = self.metadata.get("general.name"), self.metadata.get(f"{self.architecture}.block_count")
        facts = [str(name)] if name else []
        facts += [f"{layers} layers"] if layers else []
        return self.architecture + (f" ({', '.join(facts)})" if facts else "")

    @property
    def dtype(self) -> str:
        """The number format that the weights are unpacked to: the file's own, or bfloat16 for packed ones."""
        types = {tensor.type for tensor in self.tensors.values()}
        if types <= {FLOAT32}:
            return "float32"
        return "float16" if types <= {FLOAT32, FLOAT16} else "bfloat16"

    @property
    def unpacked_bytes(self) -> int:
        """Size of the weights in that format."""
        return sum(tensor.elements for tensor in self.tensors.values()) * (4 if self.dtype == "float32" else 2)

    def floats(self, name: str) -> list[float]:
        """The values of a small float32 tensor."""
        tensor = self.tensors[name]
        with open(self.path, "rb") as file:
            file.seek(tensor.begins_at)
            return list(struct.unpack(f"<{tensor.elements}f", file.read(4 * tensor.elements)))


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file. Raises ModelError for a file that is none, is damaged, or is cut short."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                raise ModelError("the file is no GGUF file", where=str(path), hint="name a .gguf file of a model")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                header = _parse(_Cursor(content), path)
                _check_length(header, len(content))
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    except (struct.error, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise ModelError(f"the file's header is damaged: {error}", where=str(path), hint=AGAIN) from error
    return header


def _parse(cursor: "_Cursor", path: Path) -> GgufHeader:
    version, num_tensors, num_values = cursor.take("IQQ")
    if version not in VERSIONS:
        hint = "convert the model again with a current llama.cpp"
        raise ModelError(f"GGUF version {version}, and tonetune reads 2 and 3", where=str(path), hint=hint)
    metadata = {}
    for _ in range(num_values):
        key = cursor.text()
        metadata[key] = cursor.value(*cursor.take("I"))
    entries = [(cursor.text(), cursor.take(f"{cursor.one('I')}Q"), *cursor.take("IQ")) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"general.alignment is {alignment!r}")
    data = -(-cursor.at // alignment) * alignment
    tensors = {name: GgufTensor(shape[::-1], kind, data + offset) for name, shape, kind, offset in entries}
    return GgufHeader(path, metadata, tensors)


def _check_length(header: GgufHeader, num_bytes: int) -> None:
    """Raises ModelError for a type of tensor that the gguf package cannot unpack, and where the file ends too early."""
    try:
        from gguf import GGML_QUANT_SIZES
    except ModuleNotFoundError as error:
        raise MissingExtraError("gguf", needed_for="a GGUF file") from error
    sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
    for name, tensor in header.tensors.items():
        if tensor.type not in sizes:
            what = f"tensor {name} is of type {tensor.type}, which the installed gguf package does not know"
            raise ModelError(what, where=str(header.path), hint="pip install --upgrade gguf")
        block, block_bytes = sizes[tensor.type]
        if tensor.begins_at + tensor.elements // block * block_bytes > num_bytes:
            raise ModelError(f"the file is cut short: {name} lies behind its end", where=str(header.path), hint=AGAIN)


class _Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at = content, len(MAGIC)

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self.content, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values

    def one(self, layout: str) -> Any:
        (value,) = self.take(layout)
        return value

    def text(self) -> str:
        begin = self.at + 8
        self.at = begin + self.one("Q")
        return self.content[begin : self.at].decode()

    def value(self, kind: int) -> Any:
        """A number, a text, a list of numbers, or None for any other list, which is walked past."""
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.one(SCALARS[kind])
        kind, count = self.take("IQ")
        if kind in SCALARS:
            return list(self.take(f"{count}{SCALARS[kind]}"))
        for _ in range(count):
            if kind == STRING:
                length = self.one("Q")
                self.at += length
            else:
                self.value(kind)
        return None
