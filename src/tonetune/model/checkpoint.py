"""What the weight files of a model directory hold: the tensors by name, and which of them are the text model."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from tonetune.cache import cache_root
from tonetune.documents import parse_json
from tonetune.errors import ModelError, listed

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
EMBEDDING = "embed_tokens.weight"
FIRST_LAYER = "layers.0."


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a checkpoint: the file of each, and `prefix`, what the names of the text model's begin with."""

    files: dict[str, Path]
    prefix: str

    def tensor(self, name: str) -> Tensor:
        """One tensor as it is stored. Raises ModelError where there is none of this name."""
        if name not in self.files:
            raise ModelError(f"the checkpoint has no tensor {name}", where=str(next(iter(self.files.values())).parent))
        with safe_open(self.files[name], framework="pt") as tensors:
            found: Tensor = tensors.get_tensor(name)
        return found

    def lm_head(self) -> str | None:
        """Name of the language model's head, or None where it is not stored."""
        return next((name for name in self.files if name.endswith("lm_head.weight")), None)


def read_checkpoint(directory: Path) -> Checkpoint:
    """The tensors of a model directory, by the index of a sharded one and by the file's own header otherwise.

    Raises ModelError where index or file are damaged, or hold no text model.
    """
    if (directory / SINGLE).is_file():  # which transformers prefers
        files = dict.fromkeys(_names(directory / SINGLE), directory / SINGLE)
    else:
        files = {name: directory / file for name, file in weight_map(directory).items()}
    return Checkpoint(files, text_prefix(files, where=str(directory)))


def again(path: Path) -> str:
    """How to have a file of a model directory whole again."""
    made_here = path.resolve().is_relative_to(cache_root().resolve())
    return f"remove {path.parent}: it will be made again" if made_here else "fetch this file again"


def _names(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="pt") as tensors:
            return list(tensors.keys())
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path.name} is damaged: {error}", where=str(path), hint=again(path)) from error


def weight_map(directory: Path) -> dict[str, str]:
    """File of each tensor, by the index of a sharded checkpoint.

    Raises ModelError where the index is damaged or names a file elsewhere.
    """
    path = directory / INDEX
    try:
        files = dict(parse_json(path.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path.name} is damaged: {error}", where=str(path), hint=again(path)) from error
    for file in files.values():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise ModelError(f"{path.name} names {file!r}, which is no weight file beside it", where=str(path))
    return files


def text_prefix(names: Iterable[str], *, where: str) -> str:
    """What the text model's tensors begin with, such as "model.language_model.": where embedding and layers are.

    Raises ModelError where there is no such place, or more than one.
    """
    names = list(names)
    ends = [name.removesuffix(EMBEDDING) for name in names if name.endswith(EMBEDDING)]
    prefixes = [p for p in ends if any(name.startswith(p + FIRST_LAYER) for name in names)]
    if len(prefixes) == 1:
        return prefixes[0]
    places = f"{len(prefixes)} text models, below {listed(prefixes)}" if prefixes else "no text model"
    parts = sorted({name.split(".")[0] for name in names})
    raise ModelError(
        f"the checkpoint holds {places}; its tensors begin with {listed(parts)}",
        where=where,
        hint=f"a decoder with {EMBEDDING} and {FIRST_LAYER}… beside it is needed",
    )
