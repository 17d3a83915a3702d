"""What is settled before the first step: device, base, template, words and tokens, each choice with its reason."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune import __version__
from tonetune.config import RunConfig
from tonetune.data.batches import TokenStore
from tonetune.data.example import Example
from tonetune.data.language import dominant_language
from tonetune.data.prepare import Prepared
from tonetune.data.splits import TRAIN
from tonetune.data.template import DEFAULT_TEMPLATES, Template, with_turns
from tonetune.data.tokens import TextTokenizer
from tonetune.device.choose import (
    Choice,
    Probes,
    call_tokens,
    choose_attention,
    choose_compile,
    choose_cudnn_attention,
    choose_device,
    choose_dtype,
    choose_pinned_memory,
    dtype_name,
    reset_peak_memory,
    settle_cudnn_attention,
)
from tonetune.device.doctor import known
from tonetune.device.fit import choose_fit, usual_fit
from tonetune.device.host import device_variables
from tonetune.device.memory import available_bytes, memory_errors
from tonetune.device.probes.record import known_results
from tonetune.errors import ConfigError, ModelError
from tonetune.evaluation.tasks import Answers, Task
from tonetune.labels import LabelSet
from tonetune.model.adapters import target_names
from tonetune.model.artefact import text_tokenizer
from tonetune.model.blueprint import Blueprint
from tonetune.model.classifier import Classifier
from tonetune.model.families import check_kernel, family_of
from tonetune.model.head import LabelWords, choose_words, flat_ids, head_from_words, kind_of, random_head
from tonetune.model.loading import Base, Vocabulary, load_base, read_text_config
from tonetune.model.quantization import quantization_of
from tonetune.model.source import Source
from tonetune.report.text import percent
from tonetune.training.dry_run import DryRun

MUCH_TRUNCATED = 0.2
"""Share of texts over data.max_length above which that is a warning."""
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Placement:
    """Where and how the body computes, each a choice with its reason; `dry_run` says what a step takes there.

    `probes` are the results that were known on this machine.
    """

    device: Choice[torch.device]
    dtype: Choice[torch.dtype]
    attention: Choice[str]
    cudnn_attention: Choice[bool]
    micro_batch_tokens: Choice[int]
    checkpointing: Choice[bool]
    compile: Choice[bool]
    pinned_memory: Choice[bool]
    available_bytes: int
    dry_run: DryRun
    probes: Probes

    @classmethod
    def choose(cls, config: RunConfig, source: Source, *, num_labels: int) -> "Placement":
        """Resolve every `auto` of the sections model and train that speaks of the device."""
        family = family_of(source.config, where=str(source.directory))
        check_kernel(family, config.model.attention)
        probes = known_results()
        device = choose_device()
        dtype = choose_dtype(config.model.dtype, device.value, probes)
        attention = choose_attention(config.model.attention, family.kernels, family.kernel_reason, dtype.value, probes)
        blueprint = Blueprint(
            read_text_config(source),
            family,
            dtype=dtype.value,
            attention=attention.value,
            num_labels=num_labels,
            quantization=quantization_of(config.model.quantization, source.config, where=str(source.directory)),
            **config.lora.model_dump(),
        )
        dry_run = DryRun(blueprint, device.value, longest=config.data.max_length)
        available = available_bytes(device.value)
        train = config.train
        try:
            fit = choose_fit(
                train.micro_batch_tokens,
                train.checkpointing,
                device.value,
                longest=config.data.max_length,
                batch=train.batch,
                available=available,
                need=lambda tokens, checkpointing: dry_run.footprint(tokens, checkpointing=checkpointing).total,
            )
        except ModelError as error:
            fit = usual_fit(train.micro_batch_tokens, train.checkpointing, device.value, error.what)
        return cls(
            device=device,
            dtype=dtype,
            attention=attention,
            cudnn_attention=choose_cudnn_attention(device.value),
            micro_batch_tokens=fit.micro_batch_tokens,
            checkpointing=fit.checkpointing,
            compile=choose_compile(config.train.compile, probes),
            pinned_memory=choose_pinned_memory(probes),
            available_bytes=available,
            dry_run=dry_run,
            probes=probes,
        )

    @property
    def call_tokens(self) -> int:
        return call_tokens(self.device.value)

    def as_dict(self) -> dict[str, object]:
        """The part "placement" of env.json."""
        return {name: choice.as_dict() for name, choice in self.choices().items()}

    def choices(self) -> dict[str, Choice[Any]]:
        """Everything that was chosen, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Choice)}

    def resolved(self) -> dict[str, object]:
        """The config values that `auto` became."""
        return {
            "model.dtype": dtype_name(self.dtype.value),
            "model.attention": self.attention.value,
            "train.micro_batch_tokens": self.micro_batch_tokens.value,
            "train.checkpointing": self.checkpointing.value,
            "train.compile": self.compile.value,
        }


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that a result depends on; None for one that is not installed."""
    return {"python": platform.python_version(), "tonetune": __version__} | {name: _version(name) for name in PACKAGES}


def environment(placement: Placement) -> dict[str, object]:
    """The document env.json: versions, machine, variables that matter, the placement with its reasons, and as "doctor"
    what was known of the machine: verdict, advice, and the results of probes that ran here before.
    """
    device = placement.device.value
    found = known(placement.probes).as_dict()
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "card": card,
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
        },
        "variables": device_variables(os.environ),
        "placement": placement.as_dict(),
        "doctor": {name: found[name] for name in ("verdict", "summary", "probes", "advice")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Prompt:
    """Template and words with the language they were chosen for, and the tokenizer that puts the template around texts.

    `note` says what a person should know about them.
    """

    tokenizer: TextTokenizer
    template: Template
    language: str
    words: LabelWords | None
    note: str | None

    def as_dict(self, labels: LabelSet) -> dict[str, Any]:
        return {
            "template": self.template.source,
            "language": self.language,
            "words": self.words.as_dict(labels) if self.words else None,
            "note": self.note,
        }


def choose_prompt(
    config: RunConfig, base: Vocabulary, labels: LabelSet, texts: Sequence[str], *, num_turns: int
) -> Prompt:
    """Template and words: the user's, else by the language of the training texts and the kind of labels.

    The template chosen here stands as a person's message in the chat of a checkpoint that has one.
    """
    language = dominant_language(texts)
    source = config.prompt.template
    if source == "auto":
        source = with_turns(DEFAULT_TEMPLATES[language, kind_of(labels)], num_turns)
        source = base.chat.around(source) if base.chat else source
    template = Template.parse(source)
    tokenizer = text_tokenizer(base, template=template, max_length=config.data.max_length)
    chosen: Mapping[str, str] | None = None if isinstance(config.prompt.words, str) else config.prompt.words
    words = choose_words(labels, tokenizer, language=language, chosen=chosen)
    if words is None:
        note = "the labels are numbers, which say nothing to a language model: name their words under prompt.words"
        return Prompt(tokenizer, template, language, None, note)
    return Prompt(tokenizer, template, language, words, words.note)


@dataclass(frozen=True)
class Start:
    """The loaded base, its prompt, the layers to adapt; when loading began (perf_counter) and the peak memory then."""

    base: Base
    prompt: Prompt
    targets: list[str]
    began_s: float
    memory_before_mib: float

    @classmethod
    def load(cls, config: RunConfig, prepared: Prepared, source: Source, placement: Placement) -> "Start":
        """Load the base and choose the prompt: all that can be wrong with them shows before anything is written."""
        began_s, memory_before_mib = time.perf_counter(), reset_peak_memory(placement.device.value)
        with memory_errors("loading"):
            base = load_placed(source, placement, quantization=config.model.quantization, gate=config.model.load_gate)
        texts = [example.text for example in prepared.splits[TRAIN]]
        prompt = choose_prompt(config, base, prepared.label_set, texts, num_turns=prepared.num_turns)
        targets = target_names(base.body, base.family, config.lora.targets)
        return cls(base, prompt, targets, began_s, memory_before_mib)


def build_classifier(config: RunConfig, base: Base, labels: LabelSet, prompt: Prompt, *, init: str) -> Classifier:
    """The classifier before training, its head from the label words or at random from the seed."""
    if init == "words":
        if prompt.words is None:
            raise ConfigError([prompt.note or "there are no label words"], where="prompt.words")
        head = head_from_words(prompt.words, base.lm_head_rows(flat_ids(prompt.words)))
    else:
        head = random_head(len(labels), base.hidden, generator=torch.Generator().manual_seed(config.train.seed))
    return Classifier(base.body, head)


@dataclass(frozen=True)
class Split:
    """One split on the device: its examples, token ids, what is true of them, and which were cut; N of each."""

    examples: list[Example]
    store: TokenStore
    gold: Answers
    truncated: NDArray[np.bool_]

    @property
    def texts(self) -> list[str]:
        return [example.text for example in self.examples]


def tokenize_splits(prepared: Prepared, task: Task, prompt: Prompt, device: torch.device) -> dict[str, Split]:
    """Token ids of every split, put on the device once."""
    splits = {}
    for name, examples in prepared.splits.items():
        encoded = prompt.tokenizer.encode([example.text for example in examples])
        store = TokenStore(encoded.ids, pad_id=prompt.tokenizer.pad_id, device=device)
        splits[name] = Split(examples, store, task.gold(examples), encoded.truncated)
    return splits


def token_facts(splits: Mapping[str, Split]) -> dict[str, object]:
    """Token counts for data.json: mean and longest text in tokens, texts cut to max_length, over all splits."""
    lengths = np.concatenate([split.store.lengths for split in splits.values()])
    characters = sum(len(text) for text in splits[TRAIN].texts)
    return {
        "mean_tokens": float(lengths.mean()),
        "longest_tokens": int(lengths.max()),
        "truncated_texts": (truncated := sum(int(split.truncated.sum()) for split in splits.values())),
        "truncated_share": truncated / len(lengths),
        "tokens_per_character": float(splits[TRAIN].store.lengths.sum() / characters),
    }


def truncation_note(tokens: Mapping[str, Any], max_length: int) -> str | None:
    """What a person should know of texts over the limit, by the `token_facts`; a warning where they are many."""
    texts, share = tokens["truncated_texts"], tokens["truncated_share"]
    if not texts:
        return None
    said = f"{texts:,} texts ({percent(share)}) are longer than {max_length} tokens: their beginning and end are kept"
    return f"warning: {said}; raise data.max_length to have more of them read" if share > MUCH_TRUNCATED else said


def load_placed(source: Source, placement: Placement, *, quantization: str, gate: str) -> Base:
    """The base on its device, cuDNN's attention switched off for this process where it is not to be taken."""
    settle_cudnn_attention(placement.cudnn_attention)
    return load_base(
        source,
        dtype=placement.dtype.value,
        device=placement.device.value,
        attention=placement.attention.value,
        quantization=quantization,
        gate=gate == "strict",
    )
