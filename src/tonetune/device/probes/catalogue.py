"""The table of probes: names, the functions that measure, how long they may take, what to do where they fail."""

from dataclasses import dataclass

from tonetune.device.source import source_hash


@dataclass(frozen=True)
class Probe:
    """One row. `function` is "module:name" and takes the device's name and `thorough`; it runs in a child process.

    `quick` probes are those of the short selection, in which they are told to be less thorough.
    """

    id: str
    title: str
    function: str
    limit_s: float
    advice: str
    quick: bool = False

    @property
    def source(self) -> str:
        """Changes with the code that measures."""
        return source_hash(self.function.partition(":")[0])


def _own(name: str) -> str:
    return f"tonetune.device.probes.{name}"


PROBES = (
    Probe(
        "P1",
        "matrix products, error and scale, as a part of what is allowed",
        _own("gemm:probe_gemm"),
        120,
        "train in the number format that is right here (model.dtype); try another torch build or BLAS library, "
        "and never correct results by a factor",
        quick=True,
    ),
    Probe(
        "P2",
        "RMSNorm from small to large inputs, error as a part of what is allowed",
        _own("norm:probe_norm"),
        60,
        "set model.dtype: float32, and try another version of torch or transformers",
        quick=True,
    ),
    Probe(
        "P3",
        "forward and backward of a Gemma 3, largest value as a part of what the number format holds",
        _own("body:probe_overflow"),
        120,
        "set model.dtype: float32",
    ),
    Probe(
        "P4",
        "fused attention with masks and lengths, error as a part of what is allowed",
        _own("attention:probe_attention"),
        300,
        "set model.attention: eager",
        quick=True,
    ),
    Probe(
        "P5",
        "pinned memory, bytes that changed on the way",
        _own("memory:probe_pinned"),
        60,
        "nothing: tonetune copies the data set to the device once and pins no memory",
    ),
    Probe(
        "P6",
        "one compiled decoder layer, error as a part of what is allowed",
        _own("body:probe_compile"),
        300,
        "nothing: leave train.compile as it is, layers are not compiled",
    ),
    Probe(
        "P7",
        "a tokenizer like Gemma's, checks that fail",
        _own("tokenizer:probe_tokenizer"),
        60,
        "install the tokenizers package again: pip install --force-reinstall tokenizers",
        quick=True,
    ),
    Probe(
        "P8",
        "a sum over processes, error",
        _own("collective:probe_collective"),
        120,
        "train on one GPU until a sum over several is right: set CUDA_VISIBLE_DEVICES to one of them",
    ),
    Probe(
        "P10",
        "one optimiser step, tensors that moved and should not or did not and should",
        _own("body:probe_step"),
        60,
        "try other versions of torch, transformers and peft",
        quick=True,
    ),
    Probe(
        "P9",
        "largest single block of memory, in GiB",
        _own("memory:probe_largest_block"),
        120,
        "end other programs that hold memory, or lower train.micro_batch_tokens",
    ),
)
"""In the order in which they run: the one that fills the memory comes last."""
