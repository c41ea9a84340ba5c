"""Lets depthwise convolutions over time run as those over flat images, for which ONNX Runtime has a fast kernel.

Every layer of SANM (Paraformer, SenseVoice, CT-Transformer) remembers by such a convolution. Over one axis it runs as
one small matrix product for each channel, and took a fifth of a Paraformer's int8 step; as an image of height 1, a
fiftieth. The sums are the same but for their order.
"""

from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

_HEIGHT = "depthwise/height"
_FIRST_OPSET = 13
"""From here on, the axes of Squeeze are an input."""


def flatten_depthwise(model: onnx.ModelProto) -> None:
    """Changes the depthwise convolutions over one axis, in place; any other node stays."""
    if next(one.version for one in model.opset_import if not one.domain) < _FIRST_OPSET:
        return
    graph = model.graph
    weights = {constant.name: constant for constant in graph.initializer}
    changed = False
    for place in reversed(range(len(graph.node))):
        node = graph.node[place]
        weight = weights.get(node.input[1]) if node.op_type == "Conv" else None
        if weight is None or not _is_depthwise_over_time(node, weight):
            continue
        flat = f"{weight.name}/flat"
        if flat not in weights:
            values = numpy_helper.to_array(weight)[:, :, np.newaxis, :]
            weights[flat] = numpy_helper.from_array(values, flat)
            graph.initializer.append(weights[flat])
        for new in reversed(_over_image(node, flat, weight.dims[2])):
            graph.node.insert(place + 1, new)
        del graph.node[place]
        changed = True
    if changed:
        graph.initializer.append(numpy_helper.from_array(np.array([2]), _HEIGHT))


def _is_depthwise_over_time(node: NodeProto, weight: TensorProto) -> bool:
    names = {attribute.name for attribute in node.attribute}
    return len(weight.dims) == 3 and weight.dims[0] == _attribute(node, "group", 1) > 1 and "auto_pad" not in names


def _over_image(node: NodeProto, weight: str, kernel: int) -> list[NodeProto]:
    """The convolution between a step to height 1 and a step back."""
    source, result = node.input[0], node.output[0]
    before, after = _attribute(node, "pads", [0, 0])
    image, convolved = f"{result}/image", f"{result}/convolved"
    return [
        helper.make_node("Unsqueeze", [source, _HEIGHT], [image]),
        helper.make_node(
            "Conv",
            [image, weight, *node.input[2:]],
            [convolved],
            group=_attribute(node, "group", 1),
            kernel_shape=[1, kernel],
            pads=[0, before, 0, after],
            strides=[1, *_attribute(node, "strides", [1])],
            dilations=[1, *_attribute(node, "dilations", [1])],
        ),
        helper.make_node("Squeeze", [convolved, _HEIGHT], [result]),
    ]


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)
