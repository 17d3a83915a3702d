"""The saved classifier: an adapter in PEFT's layout, config, tokenizer, and our manifest.

adapter_config.json, adapter_model.safetensors    loads with PEFT alone (task type SEQ_CLS, head as `score`)
config.json                                       the base's, with architectures, labels and pad token
tokenizer.json, tokenizer_config.json             the base's, which adds BOS and template by itself
tonetune.json                                     template, words, labels, cleaning, temperature, checksum; written last
"""

import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from tonetune.bundle import Temperature, Tokens
from tonetune.data.template import Template
from tonetune.data.tokens import TextTokenizer, read_tokenizer_config
from tonetune.documents import parse_json, typed_json
from tonetune.errors import ModelError, listed
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.model.adapters import ADAPTER, inject_lora, peft_config
from tonetune.model.classifier import Classifier
from tonetune.model.families import OWN_CLASS, Layout
from tonetune.model.gguf_base import Say
from tonetune.model.hub import read_config
from tonetune.model.loading import Base, Vocabulary, load_base
from tonetune.model.quantization import NONE, unpack
from tonetune.model.source import Source, find_base
from tonetune.rundir import whole_file, write_json

SCHEMA = 1
TENSORS = "adapter_model.safetensors"
MANIFEST = "tonetune.json"
PEFT_CONFIG = "adapter_config.json"
LORA_A = ".lora_A.weight"
AGAIN = "take the whole adapter directory from the run again"


STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Lora:
    """What LoRA was given: see the config section of the same name. `targets` are full module names."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    rank: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(allow_inf_nan=False)]
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)]
    variant: Annotated[str, Field(pattern="^(lora|rslora|dora|loraplus|pissa)$")]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """Everything beside the tensors that a prediction depends on."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    base: str
    revision: str | None
    base_fingerprint: str
    task: str
    labels: tuple[str, ...]
    label_sha256: str
    language: str
    template: str
    words: tuple[str, ...] | None
    max_length: Tokens
    cleaning: tuple[str, ...]
    lora: Lora
    attention: str
    dtype: Annotated[str, Field(pattern="^(float32|bfloat16|float16)$")]
    load_gate: str
    quantization: str = NONE
    temperature: Temperature = 1.0
    thresholds: dict[str, float] | None = None
    pooling: str = "last real token"
    schema: int = SCHEMA
    tensors_sha256: str = ""

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Raises ModelError where the manifest is absent, damaged, or of another schema."""
        path = directory / MANIFEST
        if not path.is_file():
            raise ModelError(f"no {MANIFEST}: not a classifier that tonetune saved", where=str(directory))
        try:
            text = path.read_text(encoding="utf-8")
            if (schema := parse_json(text)["schema"]) != SCHEMA:
                raise ModelError(f"schema {schema!r}, this tonetune reads {SCHEMA}", where=str(path))
            manifest = typed_json(cls, text)
            label_sha256 = LabelSet(manifest.labels).hash
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"damaged: {error}", where=str(path), hint=AGAIN) from error
        if label_sha256 != manifest.label_sha256:
            raise ModelError(
                "the label names do not match their hash: the file was changed", where=str(path), hint=AGAIN
            )
        return manifest


@dataclass(frozen=True)
class Loaded:
    """A classifier ready to score: model, tokenizer with template, labels, and the manifest it came with.

    `base` is the model that its adapter stands on.
    """

    classifier: Classifier
    tokenizer: TextTokenizer
    labels: LabelSet
    manifest: Manifest
    base: Base


def fingerprint(source: Source) -> str:
    """SHA-256 that tells one base from another in milliseconds.

    It is over the size, first and last MiB of each weight file, of config.json and of tokenizer.json. A GGUF file is
    known by the SHA-256 of the whole of it instead, whatever was made of it.
    """
    if source.is_gguf:
        return str(source.revision)
    digest = hashlib.sha256()
    others = [source.directory / name for name in ("config.json", "tokenizer.json")]
    for path in [*sorted(source.directory.glob("*.safetensors")), *others]:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with open(path, "rb") as file:
            digest.update(file.read(1 << 20))
            file.seek(max(0, size - (1 << 20)))
            digest.update(file.read())
    return digest.hexdigest()


def peft_name(name: str, layout: Layout) -> str:
    """The name of a trainable parameter in a PEFT adapter file, where DoRA's magnitudes are tensors of their own."""
    name = name.replace(f".lora_magnitude_vector.{ADAPTER}.weight", ".lora_magnitude_vector")
    return "base_model.model." + _outside(name.replace(f".{ADAPTER}.", "."), layout)


def _outside(name: str, layout: Layout) -> str:
    """The name that a module of our classifier has in the class that `layout` names, where the body may lie deeper."""
    return re.sub(r"^model\.", f"{layout.body}.", name)


def save_artefact(
    directory: Path, tensors: dict[str, Tensor], base: Base, tokenizer: TextTokenizer, manifest: Manifest
) -> None:
    """Write the adapter `directory`; `tensors` are a classifier's snapshot. The manifest comes last, with the checksum.

    Raises DiskError where it cannot be written.
    """
    named = {peft_name(name, base.layout): tensor.contiguous() for name, tensor in tensors.items()}
    payload = save(named, {"format": "pt"})
    with whole_file(directory / TENSORS, "wb") as file:
        file.write(payload)
    lora, source = manifest.lora, base.source
    targets = sorted(_outside(name, base.layout) for name in lora.targets)
    adapter_config = peft_config(
        targets,
        rank=lora.rank,
        alpha=lora.alpha,
        dropout=lora.dropout,
        variant=lora.variant,
        task_type="SEQ_CLS",
        base_model_name_or_path=source.reference,
        revision=manifest.revision,
        modules_to_save=["classifier", "score"],
        inference_mode=True,
    ).to_dict()
    adapter_config["target_modules"] = targets
    write_json(directory / PEFT_CONFIG, {k: _plain(v) for k, v in adapter_config.items()})
    write_json(directory / "config.json", _classifier_config(base, manifest))
    save_tokenizer(directory, base, tokenizer)
    checksum = hashlib.sha256(payload).hexdigest()
    write_json(directory / MANIFEST, asdict(manifest) | {"tensors_sha256": checksum})


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value if isinstance(value, (str, int, float, bool, list, dict, type(None))) else str(value)


def _classifier_config(base: Base, manifest: Manifest) -> dict[str, object]:
    """The base's config.json as that of a classifier; the pad token stands where transformers reads it."""
    names, config = manifest.labels, base.source.config
    pad: dict[str, object] = {"pad_token_id": base.pad_id}
    if "text_config" in config:
        pad["text_config"] = config["text_config"] | pad
    return config | {
        "architectures": [base.layout.classifier or OWN_CLASS],
        "num_labels": len(names),
        "id2label": _numbered(names),
        "label2id": {name: i for i, name in enumerate(names)},
        "problem_type": problem_type(manifest.task),
        **pad,
        "attn_implementation": manifest.attention,  # what Gemma 2 needs is not every version's default
        "use_cache": False,
    }


def problem_type(task: str) -> str:
    """What transformers calls a task; it chooses the sigmoid of its pipelines by it."""
    return f"{'multi' if task == MULTI_LABEL else 'single'}_label_classification"


def _numbered(names: Sequence[str]) -> dict[str, str]:
    return {str(i): name for i, name in enumerate(names)}


def save_tokenizer(directory: Path, base: Base, tokenizer: TextTokenizer) -> None:
    """Write the tokenizer so that transformers reads a raw text as `tokenizer` does, control tokens in it as plain."""
    with whole_file(directory / "tokenizer.json") as file:
        file.write(tokenizer.to_json())
    own = read_tokenizer_config(base.source.directory)
    names = {name: own[name] for name in ("bos_token", "eos_token", "unk_token") if name in own}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # takes tokenizer.json as it is; other classes rebuild it
        "pad_token": base.tokenizer.id_to_token(base.pad_id),
        "padding_side": "right",
        "truncation_side": "right",
        "model_max_length": tokenizer.max_length,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }
    write_json(directory / "tokenizer_config.json", names | settings)


def read_tensors(directory: Path, *, expected_sha256: str | None) -> dict[str, Tensor]:
    """Adapter tensors by PEFT name. Raises ModelError where the file is absent, damaged or, by its sum, was changed."""
    path = directory / TENSORS
    if not path.is_file():
        raise ModelError(f"no {TENSORS}", where=str(directory))
    if expected_sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != expected_sha256:
        raise ModelError(
            "the adapter's tensors do not match their checksum: the file was changed or cut short",
            where=str(path),
            hint=AGAIN,
        )
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ModelError(f"the tensors cannot be read: {error}", where=str(path)) from error


def load_artefact(
    directory: Path, *, device: torch.device, dtype: torch.dtype | None = None, say: Say = lambda message: None
) -> Loaded:
    """A saved classifier, on its base and in the number format it was trained in, ready to score.

    With `dtype` it is in that format, and a quantised base is unpacked. `say` hears of work that takes long, such as
    the conversion of a GGUF file that the cache no longer has. Raises ModelError where adapter, labels or base are not
    those that were saved.
    """
    manifest = Manifest.read(directory)
    _check_config(directory, manifest)
    tensors = read_tensors(directory, expected_sha256=manifest.tensors_sha256)
    source = find_base(manifest.base, revision=manifest.revision, say=say)
    if fingerprint(source) != manifest.base_fingerprint:
        raise ModelError(
            "the base model is not the one this adapter was trained on",
            where=str(source.directory),
            hint="put back the base's original files",
        )
    base = load_base(
        source,
        dtype=dtype or getattr(torch, manifest.dtype),
        device=device,
        attention=manifest.attention,
        quantization=manifest.quantization,
        gate=manifest.load_gate == "strict",
    )
    if dtype is not None:
        unpack(base.body, dtype)
    labels = LabelSet(manifest.labels)
    classifier = adapted(base, manifest.lora, tensors, base.layout, num_labels=len(labels), where=str(directory))
    tokenizer = text_tokenizer(base, template=Template.parse(manifest.template), max_length=manifest.max_length)
    return Loaded(classifier, tokenizer, labels, manifest, base)


def _check_config(directory: Path, manifest: Manifest) -> None:
    """Raises ModelError where config.json, which transformers reads, has other labels or another attention kernel."""
    path = directory / "config.json"
    config = read_config(path) if path.is_file() else {}
    expected = {"id2label": _numbered(manifest.labels), "attn_implementation": manifest.attention}
    for key, value in expected.items():
        if config.get(key, value) != value:
            found, said = (textwrap.shorten(str(one), 200) for one in (config[key], value))
            raise ModelError(f"{key} is {found}, and {said} in {MANIFEST}", where=str(path), hint=AGAIN)


def adapted(
    base: Base, lora: Lora, tensors: dict[str, Tensor], layout: Layout, *, num_labels: int, where: str
) -> Classifier:
    """The base with a saved adapter and head, ready to score. `layout` says how the names of `tensors` begin.

    Raises ModelError for a layer or a tensor that does not fit.
    """
    ranks = {name: len(tensor) for name, tensor in tensors.items() if name.endswith(LORA_A)}
    if odd := sorted(name for name, rank in ranks.items() if rank != lora.rank):  # before memory is taken for the rank
        what = f"{len(odd)} tensors do not fit the base: {listed(odd, 3)} of another rank than {lora.rank}"
        raise ModelError(what, where=where)
    if not ranks:
        raise ModelError("the tensors are no adapter's: none is a lora_A", where=where)
    classifier = Classifier(base.body, torch.zeros(num_labels, base.hidden))
    layers = {name for name, _ in classifier.named_modules()}
    if absent := [name for name in lora.targets if name not in layers]:
        raise ModelError(f"{len(absent)} adapted layers are not in the base: {listed(absent, 3)}", where=where)
    inject_lora(classifier, lora.targets, rank=lora.rank, alpha=lora.alpha, dropout=lora.dropout, variant=lora.variant)
    outside = {name: peft_name(name, layout) for name in classifier.trainable()}
    expected = {outside[name]: parameter.shape for name, parameter in classifier.trainable().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if odd := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        raise ModelError(f"{len(odd)} tensors do not fit the base: {listed(odd, 3)}", where=where)
    classifier.restore({name: tensors[outside[name]] for name in outside})
    return classifier.eval()


def text_tokenizer(base: Vocabulary, *, template: Template, max_length: int) -> TextTokenizer:
    """The base's tokenizer with a template around every text."""
    return TextTokenizer(
        base.tokenizer, template=template, bos_id=base.bos_id, pad_id=base.pad_id, max_length=max_length
    )
