"""A classifier that PEFT saved without tonetune: read, what its files do not say settled, and loaded as one of ours.

The files are adapter_config.json and adapter_model.safetensors of a model for sequence classification, whose head is
`score`. A tokenizer and a config.json with label names beside them are heeded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tonetune.data.template import Template
from tonetune.data.tokens import END, TextTokenizer, read_tokenizer
from tonetune.errors import DataError, ModelError, UsageError, listed
from tonetune.labels import LabelSet
from tonetune.model.artefact import LORA_A, PEFT_CONFIG, Lora, adapted, read_tensors
from tonetune.model.classifier import Classifier
from tonetune.model.families import TOWERS, Layout, family_of
from tonetune.model.hub import read_config
from tonetune.model.loading import Base, load_base
from tonetune.model.source import Source, find_base
from tonetune.model.tokenizer_checks import check_tokenizer

OUTSIDE = "base_model.model."
HEAD = f"{OUTSIDE}score.weight"

SAVED = {"score", "classifier"}
"""What PEFT lists under `modules_to_save` by itself; the models here have the first."""
READ: dict[str, type | tuple[type, ...]] = {
    "base_model_name_or_path": str,
    "r": int,
    "lora_alpha": (int, float),
    "lora_dropout": (int, float),
    "use_rslora": bool,
    "use_dora": bool,
}
"""The settings that are heeded, and what they must be."""
WITHOUT_EFFECT = {
    "auto_mapping", "corda_config", "eva_config", "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "revision",
    "target_modules", "task_type",
}  # fmt: skip
"""Settings checked elsewhere, of how an adapter came about, or of the layers it is on, which its tensors name."""
HARMLESS_STARTS = (True, False, "gaussian", "orthogonal", "eva")
"""Of `init_lora_weights`: those that leave the base's own weights as they are."""
CLEANING = ("control",)
"""Rules for texts that were trained on as they were: only characters that no tokenizer is meant to see go."""


@dataclass(frozen=True)
class PeftAdapter:
    """A classifier ready to score; `notes` say what a person should know of how it was understood."""

    classifier: Classifier
    tokenizer: TextTokenizer
    labels: LabelSet
    notes: tuple[str, ...]


def load_peft(
    directory: Path, *, labels: Sequence[str] | None, device: torch.device, dtype: torch.dtype, gate: bool = True
) -> PeftAdapter:
    """The classifier in a directory that PEFT wrote.

    It reads texts as its training did: by its own tokenizer, without a template of ours, and without their end where
    they are too long. `labels` name the rows of the head, in order; None takes the names of a config.json beside the
    adapter, else those of the base. Raises UsageError for labels that do not fit the head, ModelError for files that
    cannot be used, naming every feature that is not supported.
    """
    config = read_peft_config(directory / PEFT_CONFIG)
    every = read_tensors(directory, expected_sha256=None)
    tensors = {name: tensor for name, tensor in every.items() if not TOWERS & set(name.split("."))}
    source = find_base(config["base_model_name_or_path"], revision=config.get("revision"))
    names, notes = head_labels(directory, source, num_labels=_rows_of_head(tensors, directory), given=labels)
    if len(tensors) < len(every):
        notes += (f"{len(every) - len(tensors)} tensors are on towers of other senses, which no text passes",)
    attention = family_of(source.config, where=str(source.directory)).kernel
    base = load_base(source, dtype=dtype, device=device, attention=attention, gate=gate)
    targets, layout = _adapted_layers(tensors, base.layout, directory)
    lora = Lora(
        rank=config["r"],
        alpha=config["lora_alpha"],
        dropout=config["lora_dropout"],
        variant="dora" if config["use_dora"] else "rslora" if config["use_rslora"] else "lora",
        targets=targets,
    )
    classifier = adapted(base, lora, tensors, layout, num_labels=len(names), where=str(directory))
    return PeftAdapter(classifier, own_tokenizer(directory, base), names, notes)


def read_peft_config(path: Path) -> dict[str, Any]:
    """PEFT's config of an adapter, defaults filled in.

    Raises ModelError for another kind of adapter, for damage, and for every feature that is not supported, by name.
    """
    from peft import LoraConfig

    given = read_config(path)
    required = {"peft_type": "LORA", "task_type": "SEQ_CLS"}
    if other := [f"{key} is {given.get(key)}, not {only}" for key, only in required.items() if given.get(key) != only]:
        raise ModelError(f"no LoRA adapter of a sequence classifier: {listed(other)}", where=str(path))
    config: dict[str, Any] = LoraConfig().to_dict() | given
    if wrong := [f"{key} is {config[key]!r}" for key, kind in READ.items() if not isinstance(config[key], kind)]:
        raise ModelError(f"damaged: {listed(wrong)}", where=str(path), hint="copy the adapter again")
    if not (0 <= config["lora_dropout"] < 1 and math.isfinite(config["lora_alpha"])):
        what = f"damaged: lora_dropout {config['lora_dropout']}, lora_alpha {config['lora_alpha']}"
        raise ModelError(what, where=str(path), hint="copy the adapter again")
    start = config["init_lora_weights"]
    features = {key: value for key, value in config.items() if key not in READ.keys() | WITHOUT_EFFECT} | {
        "modules_to_save": [name for name in config["modules_to_save"] or () if name not in SAVED],
        "init_lora_weights": start not in HARMLESS_STARTS and start,
        "use_rslora with use_dora": config["use_rslora"] and config["use_dora"],
    }
    if used := [f"{key} ({value})" for key, value in features.items() if value and value != "none"]:
        raise ModelError(
            f"the adapter uses what tonetune does not support: {listed(used)}",
            where=str(path),
            hint="train without it, or let PEFT merge the adapter into its base",
        )
    return config


def _rows_of_head(tensors: dict[str, Tensor], directory: Path) -> int:
    """How many labels the saved head tells apart. Raises ModelError where there is none, or it is of a regression."""
    if HEAD not in tensors:
        raise ModelError(
            f"the adapter holds no head ({HEAD}), so it was not trained or not saved",
            where=str(directory),
            hint="train with task_type SEQ_CLS, which saves the head with the adapter",
        )
    rows = len(tensors[HEAD])
    if rows < 2:
        raise ModelError("the head has one row, as for a regression, and labels need two", where=str(directory))
    return rows


def _adapted_layers(tensors: dict[str, Tensor], layout: Layout, directory: Path) -> tuple[tuple[str, ...], Layout]:
    """Our names of the adapted layers, and the layout with the text model where the tensors' names have it.

    Raises ModelError where no decoder layer is adapted.
    """
    names = [name.removeprefix(OUTSIDE).removesuffix(LORA_A) for name in tensors if name.endswith(LORA_A)]
    bodies = {name.partition(".layers.")[0] for name in names if ".layers." in name}
    if len(bodies) != 1:
        raise ModelError("the adapter changes no layer of a text model", where=str(directory))
    (body,) = bodies
    return tuple("model" + name.removeprefix(body) for name in names), replace(layout, body=body)


def head_labels(
    directory: Path, source: Source, *, num_labels: int, given: Sequence[str] | None
) -> tuple[LabelSet, tuple[str, ...]]:
    """Names of the head's rows: those `given`, else those of the adapter's config.json, of the base's, or numbers.

    The second is what a person should know of them. Raises UsageError for `given` names that do not fit, ModelError
    where files name another number of labels, or the same ones in two orders.
    """
    if given is not None:
        if len(given) != num_labels:
            what = f"{len(given)} labels for a head of {num_labels} rows"
            raise UsageError(what, where="labels", hint="name one for each row, in the order of the training")
        return _label_set(given, UsageError, "labels"), ()
    named = {
        str(path): names
        for path in (directory / "config.json", source.directory / "config.json")
        if path.is_file() and (names := _names_in(read_config(path), where=str(path)))
    }
    if not named:
        numbered = LabelSet(tuple(f"LABEL_{row}" for row in range(num_labels)))
        return numbered, ("neither adapter nor base names the labels: they are numbered until you name them (labels)",)
    (where, names), *others = named.items()
    if len(names) != num_labels:
        raise ModelError(
            f"the config names {len(names)} labels, {listed(names)}, and the adapter's head has {num_labels} rows",
            where=where,
            hint="name the labels yourself (labels), one for each row, in the order of the training",
        )
    for _, other in others:
        if other != names and sorted(other) == sorted(names):
            raise ModelError(
                f"the adapter's config has the labels in the order {listed(names)}, the base's {listed(other)}",
                where=where,
                hint="name the labels yourself (labels), in the order of the training",
            )
    return _label_set(names, ModelError, where), ()


def _names_in(config: dict[str, Any], *, where: str) -> list[str] | None:
    """Label names of a config.json in the order of their rows; None where it has none but LABEL_0, LABEL_1 …

    Raises ModelError where they contradict themselves, or are of another task.
    """
    if (kind := config.get("problem_type")) not in (None, "single_label_classification"):
        raise ModelError(f"problem_type {kind} is not supported: one label a text is", where=where)
    by_row, back = config.get("id2label") or {}, config.get("label2id") or {}
    if not (isinstance(by_row, dict) and isinstance(back, dict)):
        raise ModelError("id2label and label2id are not mappings", where=where)
    rows = range(len(by_row))
    if set(by_row) != set(map(str, rows)):
        raise ModelError(f"id2label has the rows {listed(by_row)}, expected 0, 1, 2 …", where=where)
    names = [str(by_row[str(row)]) for row in rows]
    if back.keys() == set(names) and any(back[name] != row for name, row in zip(names, rows, strict=True)):
        raise ModelError("id2label and label2id name the labels in different orders", where=where)
    return None if names == [f"LABEL_{row}" for row in rows] else names


def _label_set(names: Sequence[str], kind: type[UsageError] | type[ModelError], where: str) -> LabelSet:
    try:
        return LabelSet(tuple(names))
    except DataError as error:
        raise kind(error.what, where=where) from error


def own_tokenizer(directory: Path, base: Base) -> TextTokenizer:
    """The tokenizer beside the adapter, else the base's, which puts around a text what it would by itself.

    Raises ModelError where that cannot be done in the same way.
    """
    from transformers import AutoTokenizer

    place, tokenizer = base.source.directory, base.tokenizer
    if (directory / "tokenizer.json").is_file():
        place, tokenizer = directory, read_tokenizer(directory)
        embeddings, fluent = base.body.config.vocab_size, base.gate_loss is not None
        check_tokenizer(tokenizer, bos_id=base.bos_id, embeddings=embeddings, directory=place, fluent=fluent)
    try:
        plain = AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers and the classes around them raise of every kind
        raise ModelError(f"transformers cannot read the tokenizer: {error}", where=str(place)) from error
    whole, alone = (plain("text", add_special_tokens=more)["input_ids"] for more in (True, False))
    begin = next((i for i in range(len(whole)) if whole[i : i + len(alone)] == alone), 0)
    around = [whole[:begin], whole[begin + len(alone) :]]
    prefix, suffix = (tokenizer.decode(ids, skip_special_tokens=False) for ids in around)
    result = TextTokenizer(
        tokenizer,
        template=Template((prefix, suffix)),
        bos_id=None,
        pad_id=base.pad_id,
        max_length=min(plain.model_max_length, base.body.config.max_position_embeddings),
        cut=END,
    )
    if result.encode(["text"]).ids[0].tolist() != whole:
        raise ModelError(
            f"the tokenizer puts {prefix!r} and {suffix!r} around a text, which read otherwise", where=str(place)
        )
    return result
