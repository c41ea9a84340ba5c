"""The state of one stream of the ONNX streaming Paraformer: a few arrays of fixed size, whatever its age."""

import math
import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from streamscribe.core.errors import BadRequest
from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import STACKED
from streamscribe.models.paraformer.chunk_grid import LOOK_AHEAD_ROWS, ROW_SAMPLES
from streamscribe.models.paraformer.features import CONTEXT_FRAMES
from streamscribe.models.ports import Frames

Floats = npt.NDArray[np.float32]

LOOK_BACK_ROWS = 5
"""Rows before a chunk that the encoder reads with it."""

OVERLAP_ROWS = LOOK_BACK_ROWS + LOOK_AHEAD_ROWS

_MAGIC = b"SPO1"
_HEADER = struct.Struct("<4sHIQff")


@dataclass(frozen=True, slots=True)
class Sizes:
    """A model's sizes: of an encoder row, of its decoder's layers, and of what each of these remembers."""

    width: int
    layers: int
    history: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of a state's arrays, in the order of its fields."""
        return (
            (OVERLAP_ROWS, STACKED * MELS),
            (self.width,),
            (self.layers, self.width, self.history),
            (CONTEXT_FRAMES, MELS),
        )


@dataclass(slots=True)
class StreamState:
    """What a stream leaves behind for its next chunk.

    `rows` counts the rows given; the last of them, scaled and coded by position, are the `overlap`. `weight` and
    `hidden` are what CIF carries over, `middle` is the row, with fraction, where half of the next token's weight was
    there, and `spoken_until` the sample where the last token ended. `history` is what each decoder layer has read last,
    and `context` the last frames.
    """

    chunk_rows: int
    rows: int
    spoken_until: int
    weight: float
    middle: float
    overlap: Floats
    hidden: Floats
    history: Floats
    context: Frames

    @classmethod
    def new(cls, chunk_rows: int, sizes: Sizes) -> Self:
        """The state of a stream that has heard nothing."""
        return cls(chunk_rows, 0, 0, 0.0, 0.0, *(np.zeros(shape, np.float32) for shape in sizes.shapes))

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """What of it is large."""
        return self.overlap, self.hidden, self.history, self.context

    def dump(self) -> bytes:
        """A header and the arrays, little-endian."""
        header = _HEADER.pack(_MAGIC, self.chunk_rows, self.rows, self.spoken_until, self.weight, self.middle)
        return header + b"".join(array.astype("<f4").tobytes() for array in self.arrays)

    @classmethod
    def restore(cls, data: bytes, sizes: Sizes, chunk_choices: tuple[int, ...]) -> Self:
        """The state that `dump` wrote for a model of these sizes; raises BadRequest for anything else."""
        counts = [math.prod(shape) for shape in sizes.shapes]
        if len(data) != _HEADER.size + 4 * sum(counts):
            raise BadRequest("this is no state of a stream of this model: it has another size")
        magic, chunk_rows, rows, spoken_until, weight, middle = _HEADER.unpack_from(data)
        if magic != _MAGIC or chunk_rows not in chunk_choices or spoken_until > (rows + 1) * ROW_SAMPLES:
            raise BadRequest("this is no state of a stream of this model")
        values = np.frombuffer(data, "<f4", offset=_HEADER.size).astype(np.float32)
        if not (np.isfinite(values).all() and math.isfinite(weight) and math.isfinite(middle)):
            raise BadRequest("this state of a stream has a value that is no number")
        parts = np.split(values, np.cumsum(counts)[:-1])
        arrays = (part.reshape(shape).copy() for part, shape in zip(parts, sizes.shapes, strict=True))
        return cls(chunk_rows, rows, spoken_until, weight, middle, *arrays)
