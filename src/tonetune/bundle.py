"""The manifest of an exported bundle: what its files mean, and the checksums that prove them unchanged."""

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from tonetune.documents import typed_json
from tonetune.errors import DataError, ModelError
from tonetune.labels import LabelSet
from tonetune.rundir import read_json, write_json

MANIFEST = "tonetune.json"
SCHEMA = 1
AGAIN = "export it again"

Tokens = Annotated[int, Field(ge=1, le=1 << 20)]
"""A limit of texts in tokens."""
Temperature = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
"""What logits are divided by."""


@dataclass(frozen=True)
class Bundle:
    """Everything beside the tensors that a prediction depends on, and whose work it is.

    `kind` is adapter, merged, onnx or gguf; `base` names the model that was tuned, with its fingerprint; `files` holds
    the SHA-256 of every file that is read to predict. `cleaning` names the rules that texts are cleaned by.
    `max_length` counts tokens with template and BOS; the head and the tail of a longer text are kept.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    kind: Annotated[str, Field(pattern="^(adapter|merged|onnx|gguf)$")]
    task: str
    labels: tuple[str, ...]
    label_sha256: str
    language: str
    template: str
    max_length: Tokens
    cleaning: tuple[str, ...]
    bos_id: int | None
    pad_id: int
    temperature: Temperature
    dtype: Annotated[str, Field(pattern="^(float32|bfloat16|float16|int8|int4|q8_0|q6_k|q5_k_m|q4_k_m)$")]
    load_gate: str
    base: dict[str, Any]
    thresholds: dict[str, float] | None = None
    pooling: str = "last real token"
    schema: int = SCHEMA
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> "Bundle":
        """The manifest of a bundle whose files are those that were exported.

        Raises ModelError where it is absent or damaged, its labels do not match their hash, or a file was changed.
        """
        path = directory / MANIFEST
        document = manifest_document(path)
        try:
            if document["schema"] != SCHEMA:
                raise ModelError(f"schema {document['schema']!r}, this tonetune reads {SCHEMA}", where=str(path))
            bundle = typed_json(cls, path.read_text(encoding="utf-8"))
            label_sha256 = LabelSet(bundle.labels).hash
        except (KeyError, ValueError) as error:
            raise ModelError(f"damaged: {error}", where=str(path), hint=AGAIN) from error
        if label_sha256 != bundle.label_sha256:
            raise ModelError("the label names do not match their hash", where=str(path), hint=AGAIN)
        for name, expected in bundle.files.items():
            if Path(name).name != name or not (directory / name).is_file():
                raise ModelError(f"the bundle lacks {name}", where=str(directory), hint=AGAIN)
            if sha256_of(directory / name) != expected:
                raise ModelError(f"{name} does not match its checksum", where=str(directory), hint=AGAIN)
        return bundle

    @property
    def encoding(self) -> dict[str, Any]:
        """What a `TextTokenizer` must know."""
        return {name: getattr(self, name) for name in ("template", "bos_id", "pad_id", "max_length")}

    def write(self, directory: Path, names: list[str]) -> None:
        """Write the manifest with the checksums of the files of these names. Raises DiskError."""
        files = {name: sha256_of(directory / name) for name in names}
        write_json(directory / MANIFEST, asdict(self) | {"files": files})


def bundle_kind(directory: Path) -> str | None:
    """merged, onnx or gguf for an exported bundle, None for any other directory."""
    path = directory / MANIFEST
    return manifest_document(path).get("kind") if path.is_file() else None


def manifest_document(path: Path) -> dict[str, Any]:
    """What a manifest holds, unproven. Raises ModelError where it is absent or damaged."""
    if not path.is_file():
        raise ModelError(f"no {MANIFEST}: not a bundle that tonetune exported", where=str(path.parent))
    try:
        document = read_json(path)
    except DataError as error:
        raise ModelError(f"damaged: {error.what}", where=str(path), hint=AGAIN) from error
    if not isinstance(document, dict):
        raise ModelError("damaged: it holds no mapping", where=str(path), hint=AGAIN)
    return document


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
