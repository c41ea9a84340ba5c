"""G.711: the 256 values of mu-law and of A-law as float32 in [-1, 1)."""

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]


def _mulaw() -> Samples:
    code = ~np.arange(256, dtype=np.uint8)
    exponent = (code >> 4 & 0x07).astype(np.int32)
    magnitude = ((code & 0x0F).astype(np.int32) * 8 + 0x84 << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.float32) / np.float32(32768)


def _alaw() -> Samples:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    segment = (code >> 4 & 0x07).astype(np.int32)
    mantissa = (code & 0x0F).astype(np.int32) * 16
    magnitude = np.where(segment == 0, mantissa + 8, mantissa + 0x108 << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.float32) / np.float32(32768)


MULAW = _mulaw()
ALAW = _alaw()
