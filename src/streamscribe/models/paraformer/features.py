"""What a streaming Paraformer reads: rows of 60 ms, each of seven stacked and normalised frames, chunk by chunk.

Row k of a stream is made of its frames 6 k - 3 to 6 k + 3, as FunASR's `WavFrontendOnline` stacks them: the first frame
stands for those before the stream, the last one for those behind its end.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamscribe.models.lfr import STACKED, STRIDE, Rows, read_normalisation
from streamscribe.models.ports import Frames

CONTEXT_FRAMES = STACKED // 2


class ChunkFrontend:
    """Stacks and normalises the chunks of many streams at once; holds nothing of a stream."""

    def __init__(self, cmvn_file: Path) -> None:
        self._shift, self._scale = read_normalisation(cmvn_file)

    def rows(self, contexts: Sequence[Frames | None], chunks: Sequence[Frames], count: int) -> Rows:
        """The next `count` rows of each stream, shape (streams, count, 560), from its next frames.

        A context is the last `CONTEXT_FRAMES` frames before, or none where the stream begins. A chunk that ends its
        stream may have fewer frames than the rows need: those beyond `row_count` of them are of no use.
        """
        needed = STRIDE * count - CONTEXT_FRAMES + 1
        bands = chunks[0].shape[1]
        frames = np.zeros((len(chunks), CONTEXT_FRAMES + needed, bands), np.float32)
        for row, context, chunk in zip(frames, contexts, chunks, strict=True):
            if not len(chunk):
                continue
            row[:CONTEXT_FRAMES] = chunk[0] if context is None else context
            row[CONTEXT_FRAMES : CONTEXT_FRAMES + len(chunk)] = chunk[:needed]
            row[CONTEXT_FRAMES + len(chunk) :] = chunk[-1]
        stream, frame, band = frames.strides
        shape = (len(chunks), count, STACKED * bands)
        stacked = np.ndarray(shape, np.float32, buffer=frames, strides=(stream, STRIDE * frame, band))
        return (stacked + self._shift) * self._scale


def row_count(frames: int) -> int:
    """How many rows so many last frames of a stream make."""
    return -(-frames // STRIDE)
