"""What can be chosen for a measurement of the streaming model; apart, so that the command line is quick to begin."""

from enum import StrEnum


class Size(StrEnum):
    """`tiny`: the model that the profile brings along. `real`: 220 M random weights, in 8 bits for ONNX Runtime."""

    TINY = "tiny"
    REAL = "real"


class Engine(StrEnum):
    """What runs the model; `torch` needs the extra `funasr`."""

    ONNX = "onnx"
    TORCH = "torch"
