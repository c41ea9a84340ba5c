"""How ONNX graphs are run: on the CPU, in as many threads as the settings say."""

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnxruntime as ort

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.depthwise import flatten_depthwise
from streamscribe.models.int8_weights import sign_weights, signed_is_faster


def read_graph(files: Mapping[str, Path], name: str = "model") -> onnx.ModelProto:
    """The graph `name.onnx`, or its int8 form `name_quant.onnx`; raises ModelUnavailable where there is neither."""
    for file_name in (f"{name}.onnx", f"{name}_quant.onnx"):
        if file_name in files:
            return onnx.load(files[file_name])
    raise ModelUnavailable(f"the model has no {name}.onnx")


def open_session(model: onnx.ModelProto, *, threads: int) -> ort.InferenceSession:
    """Makes the graph ready to run; takes its weights over, so that a large model is not in memory three times."""
    if signed_is_faster():
        sign_weights(model)
    flatten_depthwise(model)
    graph = model.SerializeToString()
    model.Clear()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other models' threads need the cores
    return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
