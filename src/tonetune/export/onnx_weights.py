"""An ONNX graph with weights of 8 or 4 bits, which onnxruntime computes with as they are.

Activations of Gemma hold single values that are hundreds of times the others: one scale for a whole tensor of them, as
dynamic quantisation has, loses the rest (docs/lab.md). Here activations stay float32; weights are packed in blocks.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.export.onnx import LARGEST_FILE_BYTES, quiet
from tonetune.rundir import writing

BITS = {"int8": 8, "int4": 4}
"""Bits of a weight of a matrix, by number format; embeddings have 8 in both."""
BLOCK = 32
"""Weights of one row that share a scale."""


def pack_onnx(path: Path, *, bits: int) -> None:
    """Pack matrices (blocks of `BLOCK` weights with one scale) and embeddings (rows) of the graph at `path`, in place.

    The head stays float32. Raises DiskError where it cannot be written.
    """
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model = onnx.load(str(path))
    _pack_embeddings(model.graph)
    with quiet():
        quantizer = MatMulNBitsQuantizer(model, bits=bits, block_size=BLOCK, is_symmetric=True)
        quantizer.process()
    packed = quantizer.model.model
    beside = path.with_name(f"{path.name}.data")
    with writing(path):
        beside.unlink(missing_ok=True)
        large = packed.ByteSize() > LARGEST_FILE_BYTES
        onnx.save(packed, str(path), save_as_external_data=large, location=beside.name)


def _pack_embeddings(graph: Any) -> None:
    """Put int8 rows, each with a scale, in the place of tables that rows are taken from."""
    from onnx import TensorProto, helper, numpy_helper

    tables = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    nodes: list[Any] = []
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != TensorProto.FLOAT:
            nodes.append(node)
            continue
        name, (_, rows) = table.name, node.input
        if f"{name}_int8" not in {tensor.name for tensor in graph.initializer}:
            packed, scales = _rows_of_int8(numpy_helper.to_array(table))
            graph.initializer.remove(table)
            graph.initializer.append(numpy_helper.from_array(packed, f"{name}_int8"))
            graph.initializer.append(numpy_helper.from_array(scales, f"{name}_scale"))
        taken = f"{node.output[0]}_int8", f"{node.output[0]}_float", f"{node.output[0]}_scale"
        nodes += [
            helper.make_node("Gather", [f"{name}_int8", rows], [taken[0]]),
            helper.make_node("Cast", [taken[0]], [taken[1]], to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{name}_scale", rows], [taken[2]]),
            helper.make_node("Mul", [taken[1], taken[2]], [node.output[0]]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _rows_of_int8(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A table, shape (V, D), as numbers from -127 to 127, and the scale of each row, shape (V, 1)."""
    scales = np.abs(table).max(axis=1, keepdims=True) / np.float32(127)
    scales[scales == 0] = 1
    return np.rint(table / scales).astype(np.int8), scales.astype(np.float32)
