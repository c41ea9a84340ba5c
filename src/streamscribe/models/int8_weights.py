"""Signs the weights of int8 graphs, where the processor multiplies those twice as fast.

FunASR's quantised models have unsigned weights. Processors with VNNI multiply unsigned by signed bytes in one
instruction, so ONNX Runtime is about twice as fast with signed ones (measured: 48 and 25 ms for the same encoder). A
weight and its zero point less 128 each are the same number, so results stay what they were, to the last bit.
"""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

_VNNI = {"avx512_vnni", "avx_vnni"}


@cache
def signed_is_faster() -> bool:
    """Whether this processor has VNNI; without, signed weights could overflow on their way through 16 bits."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not _VNNI.isdisjoint(flags.split())


def sign_weights(model: onnx.ModelProto) -> None:
    """Makes the unsigned weights of integer products signed, in place; products of anything else stay."""
    constants = {constant.name: constant for constant in model.graph.initializer}
    readers: dict[str, set[tuple[str, int]]] = {}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            readers.setdefault(name, set()).add((node.op_type, place))
    for node in model.graph.node:
        if node.op_type != "MatMulInteger" or len(node.input) < 4:
            continue
        names = {node.input[1]: ("MatMulInteger", 1), node.input[3]: ("MatMulInteger", 3)}
        unsigned = all(
            name in constants and constants[name].data_type == onnx.TensorProto.UINT8 and readers[name] == {reader}
            for name, reader in names.items()
        )
        for name in names if unsigned else ():
            values = numpy_helper.to_array(constants[name]).astype(np.int16) - 128
            constants[name].CopyFrom(numpy_helper.from_array(values.astype(np.int8), name))
