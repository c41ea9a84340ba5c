"""FSMN-VAD's graph as it was exported, made to serve many sessions in one call, and quickly."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

_LAST = "transpose/last"
_OVER_IMAGE = [0, 3, 2, 1]


def batched(model: bytes) -> bytes:
    """The same graph with a free first axis; no node of it depends on the batch being one."""
    graph = onnx.load_model_from_string(model)
    for value in (*graph.graph.input, *graph.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    _transpose_flat(graph.graph)
    return bytes(graph.SerializeToString())


def _transpose_flat(graph: onnx.GraphProto) -> None:
    """Swaps time and channels where there is no third axis yet, or none any more: alike, bit for bit.

    Each layer swaps them in an image of height 1, for which ONNX Runtime has no fast kernel: two fifths of a step.
    """
    nodes = list(graph.node)
    made = {result: node for node in nodes for result in node.output}
    readers = {name: node for node in nodes for name in node.input}
    replaced: dict[str, list[NodeProto]] = {}
    for node in nodes:
        if node.op_type != "Transpose" or helper.get_attribute_value(node.attribute[0]) != _OVER_IMAGE:
            continue
        before, after = made[node.input[0]], readers[node.output[0]]
        if before.op_type == "Unsqueeze":
            replaced |= {before.output[0]: [], node.output[0]: list(_into_image(before.input[0], node.output[0]))}
        elif after.op_type == "Squeeze":
            replaced |= {node.output[0]: [], after.output[0]: list(_out_of_image(node.input[0], after.output[0]))}
    del graph.node[:]
    graph.node.extend(new for node in nodes for new in replaced.get(node.output[0], [node]))
    graph.initializer.append(numpy_helper.from_array(np.array([3]), _LAST))


def _into_image(source: str, result: str) -> Iterator[NodeProto]:
    yield helper.make_node("Transpose", [source], [f"{result}/flat"], perm=[0, 2, 1])
    yield helper.make_node("Unsqueeze", [f"{result}/flat", _LAST], [result])


def _out_of_image(source: str, result: str) -> Iterator[NodeProto]:
    yield helper.make_node("Squeeze", [source, _LAST], [f"{result}/flat"])
    yield helper.make_node("Transpose", [f"{result}/flat"], [result], perm=[0, 2, 1])
