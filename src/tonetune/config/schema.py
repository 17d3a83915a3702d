"""The schema of a config: one line a key with its type, default, bounds and meaning, and nowhere else."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tonetune.config.document import dump
from tonetune.config.keys import keys_of, sections_of
from tonetune.config.load import load

Auto = Literal["auto"]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
LabelNames = Annotated[tuple[Text, ...], Field(min_length=2)]


STARTER_HEAD = """\
# A config of tonetune: every key with its default. Delete what you leave as it is.
# Run it with: tonetune train --config FILE.yaml
"""


class Section(BaseModel):
    """Keys that belong together. Frozen; an unknown key, another type or a number that is not finite is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)


class ModelSection(Section):
    """The base model."""

    base: Text = Field(
        default="demo", description="demo, a directory, a .gguf file, or a hub name such as google/gemma-3-270m"
    )
    revision: Text | None = Field(
        default=None, description="branch, tag or commit of a hub model; SHA-256 of a GGUF file"
    )
    dtype: Auto | Literal["float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="number format of the model's body; adapter, head, norms and loss are always float32",
    )
    attention: Auto | Literal["sdpa", "eager"] = Field(default="auto", description="attention implementation")
    quantization: Literal["none", "4bit", "8bit"] = Field(
        default="none",
        description="pack the frozen linear layers with bitsandbytes (extra quant) where memory is short",
    )
    load_gate: Literal["strict", "off"] = Field(
        default="strict",
        description="strict refuses a model whose weights were not all loaded; off is for random weights",
    )


class DataSection(Section):
    """The rows, and how they are read."""

    train: Text | Texts | None = Field(
        default=None, description="file or files of labelled rows, from the working directory"
    )
    validation: Text | Texts | None = Field(
        default=None, description="validation file or files; null: split from train"
    )
    test: Text | Texts | None = Field(default=None, description="test file or files; null: split from train")
    text: Text | Texts = Field(default="auto", description="text column; a list of columns makes one row several turns")
    label: Text | Texts = Field(
        default="auto", description="label column; a list of columns says of each label whether a row has it"
    )
    labels: LabelNames | None = Field(
        default=None, description="all label names in order; null: those found in the rows"
    )
    rename: dict[Text, str] = Field(
        default={}, description='label names to replace: {as written: as meant}; "" leaves the rows out'
    )
    urls: Literal["keep", "placeholder", "remove"] = Field(
        default="keep", description="links in texts: kept, replaced by [URL], or removed"
    )
    mentions: Literal["keep", "placeholder", "remove"] = Field(
        default="keep", description="@names in texts: kept, replaced by @user, or removed"
    )
    group: Text | None = Field(default=None, description="column whose equal values stay on one side of a split")
    task: Auto | Literal["single-label", "binary", "multi-label"] = Field(
        default="auto", description="kind of classification"
    )
    max_length: int = Field(
        default=256, ge=16, description="tokens of a text with template and BOS; of a longer one head and tail are kept"
    )


class PromptSection(Section):
    """What stands around a text."""

    template: Text = Field(
        default="auto", description="auto, or a text with {text} in it ({turn1}, {turn2} with several columns)"
    )
    words: Auto | dict[Text, Text] = Field(
        default="auto", description="auto, or {label: the word by which the language model would name it}"
    )


class HeadSection(Section):
    """The classification head."""

    init: Literal["words", "random"] = Field(
        default="words",
        description="words starts from the model's own label words, so that step 0 is the zero-shot baseline",
    )


class LoraSection(Section):
    """The adapter: each adapted weight becomes W + (alpha / rank) B A."""

    rank: int = Field(default=8, ge=1, description="inner width r of the update B A")
    alpha: float = Field(
        default=16.0, gt=0.0, description="scale of the update, divided by rank (by its root with rslora)"
    )
    dropout: float = Field(default=0.0, ge=0.0, le=0.9, description="probability of zeroing an input of A")
    targets: Literal["attention", "all-linear"] | Texts = Field(
        default="attention", description="layers adapted: attention (q, v, o), all-linear, or a list of layer names"
    )
    variant: Literal["lora", "rslora", "dora", "loraplus", "pissa"] = Field(
        default="lora",
        description="rslora: alpha / root of rank; dora: directions and magnitudes; loraplus: A learns at a sixteenth "
        "of the rate of B and head; pissa: starts from the main singular vectors",
    )


class TrainSection(Section):
    """The optimisation."""

    epochs: float = Field(default=3.0, gt=0.0, description="passes over the training rows; fractions are allowed")
    batch: int = Field(default=32, ge=1, description="texts per optimiser step, over all processes")
    learning_rate: float = Field(default=5e-4, gt=0.0, le=1.0, description="peak learning rate of AdamW")
    schedule: Literal["cosine", "linear", "constant"] = Field(
        default="cosine", description="learning rate after the warm-up"
    )
    warmup: float = Field(
        default=0.05, ge=0.0, lt=1.0, description="fraction of the steps in which the learning rate rises"
    )
    weight_decay: float = Field(default=0.01, ge=0.0, description="decoupled weight decay of AdamW")
    clip: float = Field(default=1.0, gt=0.0, description="largest norm of the gradient")
    class_weights: Literal["none", "balanced"] = Field(
        default="none",
        description="balanced weighs each training text by the inverse of how common its class is, so that rare "
        "classes count as much as common ones",
    )
    seed: int = Field(default=42, ge=0, lt=2**32, description="the only source of randomness of a run")
    evaluate_every: int = Field(default=50, ge=1, description="steps between two evaluations on the validation rows")
    patience: int | None = Field(
        default=None, ge=1, description="evaluations in a row without a gain that stop; null: never"
    )
    micro_batch_tokens: Auto | Count = Field(default="auto", description="tokens that one device computes at once")
    checkpointing: Auto | bool = Field(
        default="auto", description="recompute activations in the backward pass to save memory"
    )
    compile: Auto | bool = Field(
        default="auto", description="compile the decoder layers: faster steps after a slow start"
    )


class EvaluateSection(Section):
    """What is measured."""

    select_by: Literal["macro_f1", "micro_f1", "accuracy"] = Field(
        default="macro_f1",
        description="validation metric that chooses the best checkpoint and stops early; micro_f1 is for multi-label "
        "rows",
    )
    seeds: int = Field(default=1, ge=1, description="repeats of the run, counted up from train.seed")


class RunSection(Section):
    """Where results go."""

    dir: Text = Field(default="runs", description="directory that holds the runs, from the working directory")
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="steps between two checkpoints, beside those of better models; null: by time"
    )
    checkpoint_minutes: float | None = Field(
        default=10.0, gt=0.0, description="minutes between two checkpoints; null: by steps"
    )
    keep_checkpoints: int = Field(default=2, ge=1, description="newest checkpoints kept, beside the best one")
    price_per_hour: float | None = Field(
        default=None, ge=0.0, description="price of the machine per hour, in any currency"
    )
    trackers: tuple[Literal["tensorboard", "mlflow", "wandb", "trackio", "swanlab"], ...] = Field(
        default=(),
        description="programs that show steps and scores, each its own pip package; they write below run.dir/trackers "
        "and send nothing unless their own environment variables say so",
    )


class RunConfig(Section):
    """Everything that a run is told. Read one with `load_config`, which explains what does not fit."""

    model: ModelSection = ModelSection()
    data: DataSection = DataSection()
    prompt: PromptSection = PromptSection()
    head: HeadSection = HeadSection()
    lora: LoraSection = LoraSection()
    train: TrainSection = TrainSection()
    evaluate: EvaluateSection = EvaluateSection()
    run: RunSection = RunSection()

    @field_validator("prompt")
    @classmethod
    def _template_takes_every_column(cls, prompt: PromptSection, info: ValidationInfo) -> PromptSection:
        if "data" not in info.data:  # itself wrong; still say that a template takes no text at all
            text: str | tuple[str, ...] = ("", "") if "{turn1}" in prompt.template else ""
        else:
            text = info.data["data"].text
        several = not isinstance(text, str) and len(text) > 1
        slots = [f"{{turn{i}}}" for i in range(1, len(text) + 1)] if several else ["{text}"]
        wrong = [slot for slot in slots if prompt.template.count(slot) != 1]
        if prompt.template != "auto" and wrong:
            reason = f"{prompt.template!r} does not hold {' and '.join(wrong)} exactly once, where the text goes"
            raise PydanticCustomError("rule", "{reason}", {"reason": reason, "word": "template"})
        return prompt

    @classmethod
    def from_yaml(cls, path: str | Path) -> "RunConfig":
        """The config in a file. Raises ConfigError with every problem at once."""
        return load(cls, path)

    def flat(self, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """Every value by dotted key; "json" has lists where the config has tuples."""
        sections = self.model_dump(mode=mode)
        return {f"{section}.{word}": value for section, keys in sections.items() for word, value in keys.items()}

    def with_values(self, values: Mapping[str, object]) -> "RunConfig":
        """A copy with other values by dotted key, such as what `auto` was resolved to."""
        changed: dict[str, dict[str, Any]] = self.model_dump()
        for name, value in values.items():
            section, _, word = name.partition(".")
            changed.setdefault(section, {})[word] = value
        return load(type(self), changed)


def load_config(source: str | Path | Mapping[str, Any] | None, *, overrides: Sequence[str] = ()) -> RunConfig:
    """The config in a file or mapping (None: all defaults), then `overrides` such as "lora.rank=16" on top of it.

    The right side of an override is YAML. Raises ConfigError with every problem at once.
    """
    return load(RunConfig, source, overrides=overrides)


def to_yaml(config: RunConfig) -> str:
    """Every value as YAML 1.2; reading it back gives an equal config."""
    return dump(config.model_dump(mode="json"))


def starter_yaml() -> str:
    """A file of all defaults, with what each key means as a comment."""
    blocks = [STARTER_HEAD]
    for section, model in sections_of(RunConfig).items():
        blocks.append(f"\n# {model.__doc__}\n{section}:\n")
        for key in keys_of(RunConfig).values():
            if key.section == section:
                entry = dump({key.word: key.default})
                blocks.append(textwrap.indent(f"# {key.help} ({key.allowed})\n{entry}", "  "))
    return "".join(blocks)
