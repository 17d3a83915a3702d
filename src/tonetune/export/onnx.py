"""One ONNX graph from token ids to logits, any number of texts of any length."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tonetune.errors import MissingExtraError, ModelError
from tonetune.model.classifier import Classifier

# B = texts, T = tokens of the longest, C = labels

OPSET = 18
MODULES = "pkg.torch.onnx.name_scopes"
"""Where a node says which modules it lies in, from the outermost."""
LARGEST_FILE_BYTES = 1 << 30
"""Above this the tensors go into a file of their own: one protobuf message holds at most 2 GiB."""


class Graph(nn.Module):
    """What is exported: texts padded on the right, where causal attention never looks back at a pad."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits_BC: Tensor = self.classifier(input_ids, attention_mask, right_padded=True)
        return logits_BC


def write_onnx(path: Path, classifier: Classifier, *, max_length: int, metadata: dict[str, str]) -> None:
    """Write the graph of a merged classifier in float32.

    Raises MissingExtraError without the packages for it, ModelError for a body that ONNX has no operators for.
    """
    try:
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ModuleNotFoundError as error:
        raise MissingExtraError("onnx", needed_for="ONNX export") from error
    example = torch.arange(6, 18, device=classifier.device).reshape(2, 6)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=max_length)
    dynamic = {name: {0: batch, 1: length} for name in ("input_ids", "attention_mask")}
    try:
        with quiet(), torch.no_grad():
            program: Any = torch.onnx.export(
                Graph(classifier),
                (example, torch.ones_like(example)),
                dynamo=True,
                input_names=["input_ids", "attention_mask"],
                output_names=["logits"],
                dynamic_shapes=dynamic,
                opset_version=OPSET,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = str(error.__cause__ or error).splitlines()[0]
        raise ModelError(f"this model cannot be written as ONNX: {cause[:200]}", hint="--to merged") from error
    _forget(program.model.graph)
    program.model.metadata_props.update(metadata)
    size = sum(parameter.numel() * parameter.element_size() for parameter in classifier.parameters())
    program.save(str(path), external_data=size > LARGEST_FILE_BYTES)


def _forget(graph: Any) -> None:
    """Take out what the exporter notes at each node, source lines with this machine's paths, but for its module."""
    for node in graph:
        kept = {key: value for key, value in node.metadata_props.items() if key == MODULES}
        node.metadata_props.clear()
        node.metadata_props.update(kept)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' own warnings and log lines about what they leave out."""
    import logging

    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
