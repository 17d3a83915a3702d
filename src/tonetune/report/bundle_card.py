"""README.md of an exported bundle: what it is, how near it is to the classifier, and how to run it."""

from pathlib import Path
from typing import Any

from tonetune.bundle import Bundle
from tonetune.report.text import markdown
from tonetune.rundir import whole_file

RUN_WITH = {
    "merged": """\
```python
import tonetune

classifier = tonetune.load("{name}")
classifier.predict("…")
```
""",
    "onnx": """\
It needs no torch: onnxruntime, tokenizers, numpy and ftfy are enough.

```python
from tonetune.runtime import load_onnx

classifier = load_onnx("{name}")
classifier.predict("…")
```

The graph takes `input_ids` and `attention_mask` of texts padded on the right and gives `logits`. Each text is BOS, the
template around it, and at most {max_length} tokens; `model.onnx` holds labels, template and temperature as metadata.
""",
}


def write_bundle_card(directory: Path, bundle: Bundle, parity: dict[str, Any]) -> None:
    """Write README.md. Raises DiskError where it cannot be written."""
    how = RUN_WITH[bundle.kind].format(name="DIRECTORY", max_length=bundle.max_length)
    before, after = parity["accuracy_before"], parity["accuracy_after"]
    low, high = parity["accuracy_after_ci95"]
    labels = ", ".join(markdown(label) for label in bundle.labels)
    page = f"""\
# A classifier of {len(bundle.labels)} labels

Labels: {labels}. Tuned from {markdown(str(bundle.base["name"]))}; {bundle.kind}, {bundle.dtype}.

On {parity["rows"]:,} held-out rows it gives the label of base and adapter in float32 on {parity["agreement"]:.2%},
and logits differ by at most {parity["max_abs_logit_diff"]:.2g}. Accuracy there is {after:.3f}
({low:.3f} to {high:.3f}), and was {before:.3f} before the export.

## Use

{how}
`parity.safetensors` holds token ids, true labels and logits of held-out rows, to check any other runtime.
"""
    with whole_file(directory / "README.md") as file:
        file.write(page)
