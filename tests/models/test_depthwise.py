"""Depthwise convolutions over time, run as those over images."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from streamscribe.models.depthwise import flatten_depthwise

CHANNELS, KERNEL = 32, 11


def graph_of(*, opset=17, groups=CHANNELS, twice=False, **attributes):
    weight = np.random.default_rng(0).standard_normal((CHANNELS, CHANNELS // groups, KERNEL)).astype(np.float32)
    bias = np.arange(CHANNELS, dtype=np.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["once"], group=groups, **attributes)]
    if twice:
        nodes.append(helper.make_node("Conv", ["once", "w"], ["twice"], group=groups, **attributes))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, CHANNELS, None])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [None, CHANNELS, None])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model, x):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    "attributes",
    [{}, {"pads": [10, 0]}, {"pads": [5, 5], "strides": [2]}, {"dilations": [2], "kernel_shape": [KERNEL]}],
)
def test_the_sums_stay_what_they_were(attributes):
    x = np.random.default_rng(1).standard_normal((3, CHANNELS, 40)).astype(np.float32)
    model = graph_of(**attributes)
    before = run(model, x)
    flatten_depthwise(model)
    onnx.checker.check_model(model)
    assert {node.op_type for node in model.graph.node} == {"Unsqueeze", "Conv", "Squeeze"}
    np.testing.assert_allclose(run(model, x), before, atol=1e-5)


def test_a_weight_that_two_convolutions_share_is_flattened_once():
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, 40)).astype(np.float32)
    model = graph_of(twice=True)
    before = run(model, x)
    flatten_depthwise(model)
    assert sum(constant.name == "w/flat" for constant in model.graph.initializer) == 1
    np.testing.assert_allclose(run(model, x), before, atol=1e-4)


@pytest.mark.parametrize("other", [{"groups": 1}, {"opset": 11}, {"auto_pad": "SAME_UPPER"}])
def test_what_is_no_depthwise_convolution_with_plain_padding_stays(other):
    model = graph_of(**other)
    before = model.SerializeToString()
    flatten_depthwise(model)
    assert model.SerializeToString() == before


def test_a_row_does_not_depend_on_the_rows_beside_it():
    x = np.random.default_rng(1).standard_normal((7, CHANNELS, 40)).astype(np.float32)
    model = graph_of(pads=[5, 5])
    flatten_depthwise(model)
    together = run(model, x)
    for row, alone in zip(together, x, strict=True):
        assert np.array_equal(run(model, alone[np.newaxis])[0], row)
