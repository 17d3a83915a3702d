"""GGUF files in llama.cpp itself, through llama-cpp-python: what runs an export, packs it, and proves it."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.data.tokens import TextTokenizer
from tonetune.errors import DiskError, MissingExtraError, ModelError

# N = texts, C = labels

Ids = Sequence[NDArray[np.int32]]
GGUF = "model.gguf"
"""The file of a bundle."""
LABEL_IDS = "tonetune.label_ids"
"""Where the file says which tokens' logits are the labels', in label order."""
PACKED = {"q6_k": 18, "q5_k_m": 17, "q4_k_m": 15}
"""llama.cpp's numbers of the formats that its own packer writes."""


def require_llama() -> Any:
    """The package llama_cpp. Raises MissingExtraError without it."""
    try:
        import llama_cpp
    except ModuleNotFoundError as error:
        raise MissingExtraError("llama", needed_for="running GGUF files") from error
    logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)
    return llama_cpp


@dataclass(frozen=True)
class LlamaScorer:
    """A GGUF file in llama.cpp, with the tokenizer of its bundle and the tokens whose logits are the labels'."""

    llama: Any
    tokenizer: TextTokenizer
    label_ids: tuple[int, ...]

    def logits(self, ids: Ids, *, done: Callable[[int], None] = lambda texts: None) -> NDArray[np.float32]:
        """Logits, shape (N, C), in order, one text after the other; `done` hears how many more are scored."""
        get = require_llama().llama_get_logits_ith
        logits_NC = np.zeros((len(ids), len(self.label_ids)), dtype=np.float32)
        for logits_C, row in zip(logits_NC, ids, strict=True):
            self.llama.reset()
            self.llama.eval(row.tolist())
            of_vocabulary = get(self.llama.ctx, -1)
            logits_C[:] = [of_vocabulary[i] for i in self.label_ids]
            done(1)
        return logits_NC

    def own_ids(self, texts: Sequence[str]) -> Ids:
        """Token ids of texts by the file's own tokenizer, BOS and template around them, cut as `TextTokenizer` does."""
        return self.tokenizer.encode_by(self._tokenize, texts).ids

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.llama.tokenize(text.encode(), add_bos=False, special=False) for text in texts]


def load_llama(
    file: Path, tokenizer: TextTokenizer, label_ids: Sequence[int], *, threads: int | None = None
) -> LlamaScorer:
    """A GGUF file on `threads` CPU threads (None: as OMP_NUM_THREADS says, or one per core).

    Raises MissingExtraError without llama-cpp-python, ModelError for a file that llama.cpp does not read.
    """
    llama_cpp = require_llama()
    length = tokenizer.max_length
    threads = threads or int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    try:
        llama = llama_cpp.Llama(
            str(file),
            n_ctx=length,
            n_batch=length,
            n_threads=threads,
            n_threads_batch=threads,
            swa_full=False,
            verbose=False,
        )
    except ValueError as error:
        raise ModelError(f"llama.cpp cannot read the file: {error}", where=str(file)) from error
    return LlamaScorer(llama, tokenizer, tuple(label_ids))


def pack(source: Path, target: Path, *, precision: str) -> None:
    """Write a GGUF file of float16 or float32 matrices anew in one of `PACKED`, by llama.cpp's own packer.

    Raises MissingExtraError without llama-cpp-python, DiskError where it does not get to its end.
    """
    llama_cpp = require_llama()
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = PACKED[precision]
    failed = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), settings)
    if failed:
        raise DiskError("llama.cpp could not pack the file", where=str(target), hint="see whether the disk is full")
