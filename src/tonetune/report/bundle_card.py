"""README.md of an exported bundle: what it is, how near it is to the classifier, and how to run it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tonetune.bundle import Bundle
from tonetune.data.tokens import TextTokenizer
from tonetune.llamacpp import GGUF, LABEL_IDS
from tonetune.model.gguf_header import read_header
from tonetune.report.text import markdown
from tonetune.rundir import whole_file

RUN_WITH = {
    "adapter": """\
```python
import tonetune

classifier = tonetune.load("DIRECTORY")
classifier.predict("…")
```

It is PEFT's own layout, for the base with a classification head: `PeftModel.from_pretrained(model, "DIRECTORY")`. The
head is among the adapter's tensors, labels are in `config.json`, and the tokenizer puts the template around a text.
""",
    "merged": """\
```python
import tonetune

classifier = tonetune.load("DIRECTORY")
classifier.predict("…")
```
""",
    "onnx": """\
It needs no torch: onnxruntime, tokenizers, numpy, ftfy and pydantic are enough.

```python
from tonetune.runtime import load_onnx

classifier = load_onnx("DIRECTORY")
classifier.predict("…")
```

The graph takes `input_ids` and `attention_mask` of texts padded on the right and gives `logits`. Each text is BOS, the
template around it, and at most {max_length} tokens; `model.onnx` holds labels, template, temperature and, where a text
has any number of labels, their thresholds as metadata.
""",
}


def write_bundle_card(directory: Path, bundle: Bundle, parity: dict[str, Any]) -> None:
    """Write README.md. Raises DiskError where it cannot be written."""
    if bundle.kind == "gguf":
        label_ids = read_header(directory / GGUF).metadata[LABEL_IDS]
        how = _in_llama_cpp(bundle, TextTokenizer.read(directory, **bundle.encoding), label_ids)
    else:
        how = RUN_WITH[bundle.kind].format(max_length=bundle.max_length)
    before, after = parity["accuracy_before"], parity["accuracy_after"]
    low, high = parity["accuracy_after_ci95"]
    labels = ", ".join(markdown(label) for label in bundle.labels)
    same, exactly = "gives the label of base and adapter in float32 on", ""
    if bundle.thresholds:
        same = "says of each label what base and adapter in float32 say on at least"
        exactly = ", the share of texts with exactly their labels,"
    page = f"""\
# A classifier of {len(bundle.labels)} labels

Labels: {labels}. Tuned from {markdown(str(bundle.base["name"]))}; {bundle.kind}, {bundle.dtype}.

On {parity["rows"]:,} held-out rows it {same} {parity["agreement"]:.2%},
and logits differ by at most {parity["max_abs_logit_diff"]:.2g}. Accuracy there{exactly} is {after:.3f}
({low:.3f} to {high:.3f}), and was {before:.3f} before the export.

## Use

{how}
`parity.safetensors` holds token ids, true labels and logits of held-out rows, to check any other runtime.
"""
    with whole_file(directory / "README.md") as file:
        file.write(page)


def _in_llama_cpp(bundle: Bundle, tokenizer: TextTokenizer, label_ids: list[int]) -> str:
    """The lines for llama-cpp-python, with the numbers of this file in them."""
    head, *others = tokenizer.around
    turns = ["text"] if len(others) == 1 else [f"turn{i}" for i in range(1, len(others) + 1)]
    prompt = [*map(str, head)]
    for turn, ids in zip(turns, others, strict=True):
        prompt += [f"*tokens({turn})", *map(str, ids)]
    labels = dict(zip(label_ids, bundle.labels, strict=True))
    answer = "The label with the highest score is the answer, and the softmax of all its confidence."
    if bundle.thresholds:
        answer = _above_thresholds(bundle.thresholds)
    return f"""\
```python
from llama_cpp import Llama, llama_get_logits_ith

LABELS = {labels!r}  # tokens that no text has: behind a text their logits are the labels'
llama = Llama("{GGUF}", n_ctx={bundle.max_length}, n_batch={bundle.max_length}, verbose=False)


def tokens(text):
    return llama.tokenize(text.encode(), add_bos=False, special=False)


def scores({", ".join(turns)}):
    llama.reset()
    llama.eval([{", ".join(prompt)}])
    logits = llama_get_logits_ith(llama.ctx, -1)
    return {{label: logits[token] / {bundle.temperature!r} for token, label in LABELS.items()}}
```

{answer}

The numbers around a text are BOS and the template {bundle.template!r} as tokens. A text takes at most
{tokenizer.room} tokens beside them; of a longer one cut the middle, not the end. `tonetune.load("DIRECTORY")` does all
this, and cleans texts as in training. The file has these numbers too, below `tonetune.`, but for those between
turns: other programs of llama.cpp's family feed the prompt as tokens and compare the logits of the labels' tokens.
"""


def _above_thresholds(thresholds: Mapping[str, float]) -> str:
    """The lines that answer where a text has any number of labels."""
    return f"""\
A text has the labels whose probability, the sigmoid of their score, is above their threshold, and may have none:

```python
from math import exp

THRESHOLDS = {dict(thresholds)!r}


def found(scores):
    return [label for label, score in scores.items() if 1 / (1 + exp(-score)) > THRESHOLDS[label]]
```"""
