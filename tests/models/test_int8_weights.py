"""Signed weights compute what unsigned ones did."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from streamscribe.models.int8_weights import sign_weights


def quantised(tmp_path) -> onnx.ModelProto:
    """Two layers as FunASR quantises them: unsigned weights, a scale for each column."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(0, 0.1, (32, 32)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 32]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "model.onnx")
    # Weights of 7 bits: products of these overflow on no processor.
    quantize_dynamic(
        tmp_path / "model.onnx",
        tmp_path / "model_quant.onnx",
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QUInt8,
    )
    return onnx.load(tmp_path / "model_quant.onnx")


def run(model: onnx.ModelProto, rows: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": rows})[0]


def kinds(model: onnx.ModelProto) -> list[int]:
    return [weight.data_type for weight in model.graph.initializer if weight.name.endswith("_quantized")]


def test_signed_weights_give_the_same_numbers(tmp_path):
    model = quantised(tmp_path)
    rows = np.random.default_rng(1).normal(0, 1, (7, 32)).astype(np.float32)
    before = run(model, rows)
    assert set(kinds(model)) == {TensorProto.UINT8}
    sign_weights(model)
    assert set(kinds(model)) == {TensorProto.INT8}
    assert np.array_equal(run(model, rows), before)


def test_signed_weights_are_left_alone(tmp_path):
    model = quantised(tmp_path)
    sign_weights(model)
    once = model.SerializeToString()
    sign_weights(model)
    assert model.SerializeToString() == once


def test_weights_that_something_else_reads_too_are_left_alone(tmp_path):
    model = quantised(tmp_path)
    model.graph.node.append(helper.make_node("Identity", ["v_quantized"], ["v_again"]))
    sign_weights(model)
    assert set(kinds(model)) == {TensorProto.UINT8, TensorProto.INT8}
