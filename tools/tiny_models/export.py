"""Writes the ONNX graphs next to a model directory's weights, named as FunASR and funasr-onnx name them.

FunASR exports with `torch.onnx.export`, whose new default needs another package; the old exporter is asked for here.
Three things are put right on the way: the token of "no hot word" and the width, which FunASR's export of SeACo takes
from the published model, and the batch axis that the realtime punctuation lacks. Large weights are kept as 16-bit
floats behind a cast, which ONNX Runtime folds when it loads the graph: half the size, the same numbers as `model.pt`.
"""

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from .features import read_normalisation

OPSET = 17
SMALL = 64  # elements; below this a weight stays as it is


def load(folder: Path) -> Any:
    """FunASR's AutoModel of the directory; it asks no hub."""
    from funasr import AutoModel

    return AutoModel(model=str(folder), device="cpu", disable_update=True, disable_pbar=True, disable_log=True)


def graphs(folder: Path) -> Iterator[tuple[str, nn.Module]]:
    """The parts that FunASR exports of this model, by file name."""
    loaded = load(folder)
    model, settings = copy.deepcopy(loaded.model).eval(), dict(loaded.kwargs)
    kind = settings.pop("model")
    parts = model.export(**settings, type="onnx", max_seq_len=512)
    for part in parts if isinstance(parts, (list, tuple)) else (parts,):
        name = part.export_name if isinstance(part.export_name, str) else part.export_name()
        if kind == "SeacoParaformer":
            _adapt_seaco(part, settings["model_conf"])
        if kind == "CTTransformerStreaming":
            axes = {axis: {0: "batch_size", **named} for axis, named in part.export_dynamic_axes().items()}
            part.export_dynamic_axes = lambda axes=axes: axes | {"text_lengths": {0: "batch_size"}}
        yield name.removesuffix(".onnx") + ".onnx", part.eval()


def _adapt_seaco(part: nn.Module, settings: dict[str, Any]) -> None:
    part.NOBIAS = settings["NO_BIAS"]
    inputs = part.export_dummy_inputs()
    if isinstance(inputs, tuple):
        speech, lengths, _ = inputs
        # One hot word: the graph keeps this number as the length of the list, and a mask of one fits any list.
        part.export_dummy_inputs = lambda: (speech, lengths, torch.randn(2, 1, settings["inner_dim"]))


def export(folder: Path) -> list[Path]:
    """Exports every graph of the directory; returns the files."""
    written = []
    for name, part in graphs(folder):
        with torch.no_grad():
            torch.onnx.export(
                part, part.export_dummy_inputs(), str(folder / name), opset_version=OPSET, dynamo=False,
                do_constant_folding=True, input_names=part.export_input_names(),
                output_names=part.export_output_names(), dynamic_axes=part.export_dynamic_axes(),
            )  # fmt: skip
        onnx.save(halved(folded(folder / name)), folder / name)
        written.append(folder / name)
    return written


def folded(path: Path) -> onnx.ModelProto:
    """The same graph as ONNX Runtime simplifies it, constants folded, in ONNX's own operators."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as place:
        options.optimized_model_filepath = str(Path(place) / "folded.onnx")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    if any(node.domain for node in model.graph.node):
        raise ValueError(f"{path.name} holds operators of ONNX Runtime's own")
    del model.opset_import[1:]
    for node in model.graph.node:
        node.name = ""
    return model


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with its large 32-bit weights stored as 16-bit floats, each behind a cast."""
    casts = []
    for weight in model.graph.initializer:
        if weight.data_type != TensorProto.FLOAT or int(np.prod(weight.dims)) < SMALL:
            continue
        values, name = numpy_helper.to_array(weight), weight.name
        half = values.astype(np.float16)
        if not np.array_equal(half.astype(np.float32), values):
            continue  # not one of `model.pt`'s numbers, as positions and folded constants are not
        weight.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    for place, cast in enumerate(casts):
        model.graph.node.insert(place, cast)
    onnx.checker.check_model(model)
    return model


def describe_for_sherpa(folder: Path, settings: dict[str, Any]) -> None:
    """Metadata by which sherpa-onnx serves the streaming encoder, and its `tokens.txt`."""
    tokens = json.loads((folder / "tokens.json").read_text())
    shift, scale = read_normalisation(folder / "am.mvn")
    model = onnx.load(folder / "model.onnx")
    entries = {
        "model_type": "paraformer",
        "version": 1,
        "vocab_size": len(tokens),
        "lfr_window_size": 7,
        "lfr_window_shift": 6,
        "encoder_output_size": settings["encoder_conf"]["output_size"],
        "decoder_num_blocks": settings["decoder_conf"]["num_blocks"],
        "decoder_kernel_size": settings["decoder_conf"]["kernel_size"],
        "neg_mean": ",".join(f"{value:.7g}" for value in shift),
        "inv_stddev": ",".join(f"{value:.7g}" for value in scale),
    }
    helper.set_model_props(model, {key: str(value) for key, value in entries.items()})
    onnx.save(model, folder / "model.onnx")
    (folder / "tokens.txt").write_text("".join(f"{token} {index}\n" for index, token in enumerate(tokens)))
