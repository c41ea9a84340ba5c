"""From frames of 10 ms to the rows of 60 ms that Paraformer reads: seven frames side by side, as a stream goes on."""

import numpy as np

from streamscribe.models.lfr import STACKED, STRIDE, Rows
from streamscribe.models.ports import Frames

CONTEXT_FRAMES = STACKED // 2
"""Frames of a row that lie before its own six; before a stream, its first frame stands for them."""


def stack(context: Frames | None, frames: Frames, count: int) -> Rows:
    """The next `count` rows of a stream that `context` precedes; behind its last frame, that frame is repeated."""
    if not count:
        return np.zeros((0, STACKED * frames.shape[1]), np.float32)
    if context is None:
        context = np.repeat(frames[:1], CONTEXT_FRAMES, axis=0)
    frames = np.concatenate((context, frames), dtype=np.float32)
    missing = STRIDE * (count - 1) + STACKED - len(frames)
    if missing > 0:
        frames = np.concatenate((frames, np.repeat(frames[-1:], missing, axis=0)))
    step, item = frames.strides
    shape = (count, STACKED * frames.shape[1])
    return np.lib.stride_tricks.as_strided(frames, shape, (STRIDE * step, item)).copy()
