"""The model card: README.md of a run, written from the run's own facts."""

import io
import re
from pathlib import Path
from typing import Any

from tonetune.data.template import Template
from tonetune.model.demo import DEMO
from tonetune.model.families import OWN_CLASS
from tonetune.model.gguf import is_gguf
from tonetune.report.facts import RunFacts
from tonetune.report.results import results, shown_metrics
from tonetune.report.text import duration, markdown, percent
from tonetune.rundir import RunDir, whole_file

DEMO_BASE = "google/gemma-3-270m"  # the hub name of what the demo model was quantised from
FEW_TEXTS = 50
PACKINGS = {
    "none": "None",
    "4bit": 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
    "8bit": "BitsAndBytesConfig(load_in_8bit=True)",
}
"""What transformers must be told to load a base as a run did."""


def write_card(run: RunDir) -> Path:
    """Write README.md into the run and return its path.

    Raises DataError or ConfigError for a damaged run, DiskError where it cannot be written.
    """
    facts = RunFacts.read(run)
    sections = [_front_matter(facts), _what_it_is(facts), _results(facts), _use(facts), _data(facts), _training(facts)]
    sections += [_limits(facts), _licence(facts)]
    with whole_file(run.card) as file:
        file.write("\n\n".join(sections) + "\n")
    return run.card


def _front_matter(facts: RunFacts) -> str:
    """The block of YAML that Hugging Face reads; `base_model` only where the base has a hub name."""
    from ruamel.yaml import YAML

    document: dict[str, Any] = {}
    base = DEMO_BASE if facts.config.model.base == DEMO else facts.config.model.base
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", base) and not (is_gguf(base) or Path(base).exists()):
        document["base_model"] = base
    document["library_name"] = "peft"
    document["pipeline_tag"] = "text-classification"
    if facts.prompt:
        document["language"] = [facts.prompt["language"]]
    document["tags"] = ["text-classification", "lora", "peft", "tonetune"]
    buffer = io.StringIO()
    YAML().dump(document, buffer)
    return f"---\n{buffer.getvalue()}---"


def _what_it_is(facts: RunFacts) -> str:
    labels = ", ".join(markdown(label) for label in facts.labels)
    return (
        f"# {markdown(facts.name)}\n\n"
        f"A LoRA adapter with a classification head. It makes {_base_name(facts)} label a text with "
        f"{'any' if facts.multi_label else 'one'} of {len(facts.labels)} labels: {labels}."
    )


def _base_name(facts: RunFacts) -> str:
    base = facts.config.model.base
    if not is_gguf(base):
        return markdown(base)
    file = f"a GGUF file with the SHA-256 `{facts.record.get('revision')}`"
    if base == DEMO:
        return f"Gemma 3 270M ({DEMO_BASE}, 4-bit weights made whole again from {file})"
    return f"{markdown(Path(base).name)} ({file})"


def _results(facts: RunFacts) -> str:
    if not (facts.baselines and facts.test):
        finished = facts.record["status"] == "finished"
        reason = "no test rows were set aside" if finished else f"the run's status is “{facts.record['status']}”"
        return f"## Results\n\nNone: {reason}."
    metrics = shown_metrics(facts.test["tuned"])
    rows = [
        f"| {r.name} | {' | '.join(r.cell(metric) for metric, _ in metrics)} |"
        for r in results(facts.baselines, facts.test["tuned"])
    ]
    head = f"| method | {' | '.join(title for _, title in metrics)} |"
    table = "\n".join([head, "|---" * (len(metrics) + 1) + "|", *rows])
    note = facts.baselines["zero_shot_note"]
    parts = ["## Results", " ".join(facts.headline), table]
    return "\n\n".join([*parts, markdown(note)] if note else parts)


def _use(facts: RunFacts) -> str:
    """How to load it, with tonetune and, where that is possible, without."""
    text = "\\n".join(["a text"] * _num_turns(facts))
    return f"""## Use

With tonetune:

```python
import tonetune

classifier = tonetune.load("path/to/this/directory")
classifier.predict("{text}")
```

It cleans a text as it did those it was trained on, and of more than {facts.config.data.max_length} tokens, the template
included, it reads the beginning and the end.

{_without_tonetune(facts)}"""


def _num_turns(facts: RunFacts) -> int:
    return Template.parse(facts.prompt["template"]).num_turns if facts.prompt else 1


def _without_tonetune(facts: RunFacts) -> str:
    """The program for transformers and PEFT alone, or why there is none."""
    if facts.classifier and facts.classifier["architectures"] == [OWN_CLASS]:
        return (
            "Only tonetune loads it: transformers has no classifier of this family of models, so that PEFT alone finds "
            "no place for the head."
        )
    if _num_turns(facts) > 1:
        return "Only tonetune loads it as it is: no other program puts turns into their places in a prompt."
    if is_gguf(facts.config.model.base):
        return """Only tonetune loads it as it is: its base is made from a GGUF file, where PEFT alone does not find it.
Users of plain PEFT need adapter and base as one model:

```sh
tonetune export path/to/this/directory --to merged --out merged
```"""
    temperature = facts.test["temperature"] if facts.test else 1.0
    packing = PACKINGS[facts.config.model.quantization]
    return f"""With transformers and PEFT alone:

```python
import torch
from peft import PeftConfig, PeftModel
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, BitsAndBytesConfig, pipeline

adapter = "path/to/this/directory/adapter"
lora, config = PeftConfig.from_pretrained(adapter), AutoConfig.from_pretrained(adapter)
model = AutoModelForSequenceClassification.from_pretrained(
    lora.base_model_name_or_path,
    revision=lora.revision or "main",
    config=config,
    dtype=torch.float32,
    quantization_config={packing},
)
model = PeftModel.from_pretrained(model, adapter)
classify = pipeline("text-classification", model, tokenizer=AutoTokenizer.from_pretrained(adapter))

answer = classify("a text", top_k=None, function_to_apply="none", truncation=True)
logits = torch.tensor([row["score"] for row in answer])
{_to_probabilities(facts, temperature)}
```

The saved tokenizer puts the template around a text by itself. Up to rounding both say the same of a clean text of at
most {facts.config.data.max_length} tokens with its template; of a longer one this program reads only the beginning."""


def _to_probabilities(facts: RunFacts, temperature: float) -> str:
    """The last lines of that program; of any number of labels a text has those above their thresholds."""
    if not facts.multi_label:
        return f"""for row, probability in zip(answer, (logits / {temperature:.4f}).softmax(-1).tolist()):
    print(row["label"], probability)"""
    thresholds = {label: round(value, 4) for label, value in facts.test["thresholds"].items()} if facts.test else {}
    return f"""thresholds = {thresholds!r}
for row, probability in zip(answer, (logits / {temperature:.4f}).sigmoid().tolist()):
    print(row["label"], probability, probability > thresholds[row["label"]])"""


def _data(facts: RunFacts) -> str:
    if facts.data is None:
        return "## Data\n\nNone was prepared."
    splits = facts.data["splits"]
    rows = [
        f"| {markdown(label)} | " + " | ".join(f"{part['labels'][label]:,}" for part in splits.values()) + " |"
        for label in facts.labels
    ]
    table = "\n".join([f"| label | {' | '.join(splits)} |", "|---" * (len(splits) + 1) + "|", *rows])
    files = [
        f"- {markdown(Path(f['path']).name)}: {f['rows']:,} rows, SHA-256 `{f['sha256']}`" for f in facts.data["files"]
    ]
    dropped = [f"{rows:,} {markdown(reason)}" for reason, rows in facts.data["dropped"].items()]
    parts = [table, "\n".join(files), f"Rows dropped: {', '.join(dropped)}." if dropped else "No row was dropped."]
    return "\n\n".join(["## Data", *filter(None, parts)])


def _training(facts: RunFacts) -> str:
    lora, settings = facts.config.lora, facts.config.train
    sentences = [
        f"Variant {lora.variant}, rank {lora.rank}, alpha {lora.alpha:g}, dropout {lora.dropout:g} on {lora.targets}; "
        f"{settings.epochs:g} epochs of batches of {settings.batch} texts, learning rate {settings.learning_rate:g}, "
        f"seed {settings.seed}.",
        f"The head started from {'label words' if facts.record.get('head_init') == 'words' else 'random values'}.",
    ]
    if facts.prompt:
        sentences.append(f"Every text stood in the template {markdown(repr(facts.prompt['template']))}.")
    if facts.adapters:
        trainable, frozen = facts.adapters["trainable"], facts.adapters["total"]
        sentences.append(f"Trained parameters: {trainable:,}, next to {frozen:,} frozen ones.")
    if facts.train:
        sentences.append(f"The whole job took {duration(facts.train['wall_s'])}.")
    return f"## Training\n\n{' '.join(sentences)} Every setting is in `config.yaml`, the machine in `env.json`."


def _limits(facts: RunFacts) -> str:
    limits = [
        "Measured on texts of the same source as the training texts; on other texts it can be worse.",
        f"A text of more than {facts.config.data.max_length} tokens, its template included, is judged by its beginning "
        "and its end.",
        "It finds the label that annotators would have given to a text, not what its writer felt.",
    ]
    if facts.test:
        few = [label for label, row in facts.test["per_label"].items() if row["support"] < FEW_TEXTS]
        if few:
            names = ", ".join(map(markdown, few))
            limits.append(f"Fewer than {FEW_TEXTS} test texts stand behind the numbers of: {names}.")
        limits.append(f"Its confidence is off by {percent(facts.test['ece'])} on average (expected calibration error).")
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)


def _licence(facts: RunFacts) -> str:
    terms = "its licence applies to this adapter too. Read it on the model's page."
    if facts.config.model.base == DEMO:
        terms = "the Gemma Terms of Use (https://ai.google.dev/gemma/terms) apply to it and to this adapter."
    return f"## Licence\n\nThe adapter is of use only together with {_base_name(facts)}; {terms}"
