"""Packed weights: a graph of 8 or 4 bits computes nearly what it did, and is smaller."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tonetune.export.onnx_weights import pack_onnx

ROWS, WIDTH = 300, 64
IDS = np.array([[0, 7, 299]])


@pytest.fixture
def graph(tmp_path):
    """Rows of a table, one of them zeros and one large, through a matrix."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    table[0], table[7] = 0, table[7] * 100
    tensors = {"table": table, "matrix": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "matrix"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["b", "t"])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "t", WIDTH]) for name in ("rows", "y")]
    initializers = [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, initializers), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 10
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def run(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["rows", "y"], {"ids": IDS})


@pytest.mark.parametrize(("bits", "error"), [(8, 0.02), (4, 0.2)])
def test_packed_weights_compute_nearly_the_same(graph, bits, error):
    rows, y = run(graph)
    size = graph.stat().st_size
    pack_onnx(graph, bits=bits)
    packed_rows, packed_y = run(graph)
    assert graph.stat().st_size < size / 3
    for row, found in zip(rows[0], packed_rows[0], strict=True):  # each row has a scale of its own
        np.testing.assert_allclose(found, row, rtol=0, atol=np.abs(row).max() / 200)
    for row, found in zip(y[0], packed_y[0], strict=True):
        assert np.linalg.norm(found - row) <= error * np.linalg.norm(row)
    operators = {node.op_type for node in onnx.load(graph).graph.node}
    assert "MatMulNBits" in operators and "MatMul" not in operators
