"""Amends FunASR's offline Paraformer graphs so that a segment is heard alike alone and beside others.

Three things in them depend on the company, FunASR's own batches included:

* The predictor reads one row behind each segment, and a last token that ends there is partly made of it. Alone that
  row is zero; in a batch it is what the encoder makes of the padding.
* The network for token times reads the rows backwards too, and in a batch begins in the padding.
* A segment in which no token fires (noise, a breath) makes the whole batch fail.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from streamscribe.core.errors import ModelUnavailable

LENGTHS = "speech_lengths"
WEIGHT = "exact/weight"
"""A further output: how many tokens' weight a segment has; one of less than 1 has no token, whatever `token_num`."""

_NO_FIRE, _ONE_FIRE = 1.01, 1.02
"""A weight below the first may not add up to a token; the second does, whatever the order of the summands."""


def make_batches_exact(model: onnx.ModelProto) -> None:
    """Changes the graph in place; raises ModelUnavailable for one that is not FunASR's."""
    graph = model.graph
    silence_padding(graph)
    _tell_lengths_to_time_network(graph)
    _let_every_row_fire(graph)


def silence_padding(graph: GraphProto) -> None:
    """Makes the encoder's output, (batch, rows, width), zero behind each segment."""
    convolution = _only(
        node
        for node in graph.node
        if node.op_type == "Conv" and _attribute(node, "group") == 1 and _attribute(node, "kernel_shape")[0] > 1
    )
    encoded = convolution.input[0]
    while (encoder := _producer(graph, encoded)).op_type in ("Pad", "Transpose"):
        encoded = encoder.input[0]
    zero, one, nothing = (_constant(graph, np.array(value)) for value in (0, 1, np.float32(0)))
    column, row_and_column = _constant(graph, np.array([1])), _constant(graph, np.array([1, 2]))
    _rename(graph, encoded, "exact/encoded")
    _insert(
        graph,
        _index(graph, encoder) + 1,
        helper.make_node("Shape", [encoded], ["exact/shape"]),
        helper.make_node("Gather", ["exact/shape", one], ["exact/rows"]),
        helper.make_node("Range", [zero, "exact/rows", one], ["exact/range"]),
        helper.make_node("Unsqueeze", ["exact/range", column], ["exact/places"]),
        helper.make_node("Cast", [LENGTHS], ["exact/lengths"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["exact/lengths", row_and_column], ["exact/ends"]),
        helper.make_node("Less", ["exact/places", "exact/ends"], ["exact/inside"]),
        helper.make_node("Where", ["exact/inside", encoded, nothing], ["exact/encoded"]),
    )


def _tell_lengths_to_time_network(graph: GraphProto) -> None:
    both_ways = [node for node in graph.node if node.op_type == "LSTM"]
    if not both_ways:
        return
    network = _only(both_ways)
    upsampling = _only(node for node in graph.node if node.op_type == "ConvTranspose")
    times = _constant(graph, np.array(_attribute(upsampling, "strides")[0], np.int32))
    network.input[4] = "exact/upsampled_lengths"
    _insert(graph, _index(graph, network), helper.make_node("Mul", [LENGTHS, times], ["exact/upsampled_lengths"]))


def _let_every_row_fire(graph: GraphProto) -> None:
    """Adds what is missing to one token at the very end of a row, and an output of what there was before."""
    total = _producer(graph, "token_num")
    while total.op_type in ("Cast", "Floor", "Round", "Identity"):
        total = _producer(graph, total.input[0])
    if total.op_type != "ReduceSum":
        raise ModelUnavailable(_FOREIGN)
    weights = total.input[0]
    before = NodeProto()
    before.CopyFrom(total)
    before.name, before.output[0] = "exact/ReduceSum", WEIGHT
    first, last, end = (_constant(graph, np.array([place])) for place in (0, -1, np.iinfo(np.int64).max))
    columns, nothing = _constant(graph, np.array([1])), _constant(graph, np.float32(0))
    no_fire, one_fire = _constant(graph, np.float32(_NO_FIRE)), _constant(graph, np.float32(_ONE_FIRE))
    _rename(graph, weights, "exact/weights")
    _insert(
        graph,
        _index(graph, total),
        before,
        helper.make_node("Less", [WEIGHT, no_fire], ["exact/mute"]),
        helper.make_node("Sub", [one_fire, WEIGHT], ["exact/missing"]),
        helper.make_node("Where", ["exact/mute", "exact/missing", nothing], ["exact/more"]),
        helper.make_node("Unsqueeze", ["exact/more", columns], ["exact/more_column"]),
        helper.make_node("Slice", [weights, first, last, columns], ["exact/first_columns"]),
        helper.make_node("Slice", [weights, last, end, columns], ["exact/last_column"]),
        helper.make_node("Add", ["exact/last_column", "exact/more_column"], ["exact/filled_column"]),
        helper.make_node("Concat", ["exact/first_columns", "exact/filled_column"], ["exact/weights"], axis=1),
    )
    graph.output.append(helper.make_tensor_value_info(WEIGHT, TensorProto.FLOAT, ["batch_size"]))


_FOREIGN = "model.onnx is not an export of FunASR's Paraformer"


def _only(nodes: Iterable[NodeProto]) -> NodeProto:
    found = list(nodes)
    if len(found) != 1:
        raise ModelUnavailable(_FOREIGN)
    return found[0]


def _producer(graph: GraphProto, tensor: str) -> NodeProto:
    return _only(node for node in graph.node if tensor in node.output)


def _attribute(node: NodeProto, name: str) -> Any:
    return next(helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == name)


def _index(graph: GraphProto, node: NodeProto) -> int:
    return next(index for index, one in enumerate(graph.node) if one is node)


def _constant(graph: GraphProto, value: npt.NDArray[Any] | np.generic) -> str:
    name = f"exact/constant_{len(graph.initializer)}"
    graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def _insert(graph: GraphProto, index: int, *nodes: NodeProto) -> None:
    """Puts the nodes there, for a graph lists its nodes in the order of their running."""
    for node in reversed(nodes):
        graph.node.insert(index, node)


def _rename(graph: GraphProto, old: str, new: str) -> None:
    """Lets all nodes, those of inner graphs too, read `new` in place of `old`."""
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, old, new)
