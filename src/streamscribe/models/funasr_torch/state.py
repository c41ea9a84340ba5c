"""The state of one stream of the batched streaming Paraformer: an object of fixed size, whatever its age."""

import math
import struct
from dataclasses import dataclass

import numpy as np
import torch

from streamscribe.core.errors import BadRequest
from streamscribe.models.fbank import MELS
from streamscribe.models.paraformer.chunk_grid import LOOK_AHEAD_ROWS
from streamscribe.models.paraformer.features import CONTEXT_FRAMES
from streamscribe.models.ports import Frames

ENCODER_LOOK_BACK = 4
"""Chunks of the past that the encoder attends to; the decoder attends to one. FunASR's advice for its models."""

_MAGIC = b"SPT1"
_HEADER = struct.Struct("<4sHQQd??")


@dataclass(frozen=True, slots=True)
class Sizes:
    """A model's sizes: rows are features of 60 ms, `row_width` wide; `history` is the reach of a decoder layer."""

    row_width: int
    width: int
    encoder_layers: int
    encoder_heads: int
    decoder_layers: int
    decoder_heads: int
    history: int

    def shapes(self, chunk_rows: int) -> tuple[tuple[int, ...], ...]:
        """The shapes of a state's tensors, in the order of `StreamState`'s fields."""
        encoder_head, decoder_head = self.width // self.encoder_heads, self.width // self.decoder_heads
        window = ENCODER_LOOK_BACK * chunk_rows
        return (
            (LOOK_AHEAD_ROWS, self.row_width),
            (self.encoder_layers, 2, self.encoder_heads, window, encoder_head),
            (1,),
            (self.width,),
            (self.decoder_layers, 2, self.decoder_heads, chunk_rows, decoder_head),
            (self.decoder_layers, self.width, self.history),
        )


class StreamState:
    """What a stream leaves behind for its next chunk; all tensors are views of one block of memory.

    `rows` counts the rows heard; the last `LOOK_AHEAD_ROWS` of them, coded, are `overlap`. `encoder_cache` and
    `decoder_cache` hold keys and values by layer: the encoder's is a ring of `ENCODER_LOOK_BACK` chunks, the
    decoder's is that of the last chunk with tokens, if `decoded`. `alpha` and `hidden` are what CIF carries over, and
    `history` is what each decoder layer has read last. `context` are the last frames, which the next row begins with.
    `middle` is the row, with fraction, where half of the weight of the token to come was there, and `spoken_until` the
    sample where the last token ended.
    """

    __slots__ = (
        "_sizes", "alpha", "chunk_rows", "context", "decoded", "decoder_cache", "encoder_cache", "hidden", "history",
        "memory", "middle", "overlap", "rows", "spoken_until",
    )  # fmt: skip

    def __init__(self, sizes: Sizes, chunk_rows: int, device: torch.device) -> None:
        self._sizes = sizes
        self.chunk_rows = chunk_rows
        self.rows = 0
        self.decoded = False
        self.middle = 0.0
        self.spoken_until = 0
        self.context: Frames | None = None
        shapes = sizes.shapes(chunk_rows)
        counts = [int(np.prod(shape)) for shape in shapes]
        self.memory = torch.zeros(sum(counts), device=device)
        views = [part.view(shape) for part, shape in zip(self.memory.split(counts), shapes, strict=True)]
        self.overlap, self.encoder_cache, self.alpha, self.hidden, self.decoder_cache, self.history = views

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return int(self.memory.nbytes) + CONTEXT_FRAMES * MELS * 4

    def copy(self) -> "StreamState":
        """Another state that knows the same."""
        other = StreamState(self._sizes, self.chunk_rows, self.memory.device)
        other.rows, other.decoded, other.context = self.rows, self.decoded, self.context
        other.middle, other.spoken_until = self.middle, self.spoken_until
        other.memory.copy_(self.memory)
        return other


def dump(state: StreamState) -> bytes:
    """The state as bytes: a header, the frames of context and the block of memory, little-endian."""
    context = np.zeros((CONTEXT_FRAMES, MELS), np.float32) if state.context is None else state.context
    header = _HEADER.pack(
        _MAGIC,
        state.chunk_rows,
        state.rows,
        state.spoken_until,
        state.middle,
        state.decoded,
        state.context is not None,
    )
    memory: bytes = state.memory.cpu().numpy().astype("<f4").tobytes()
    return header + context.astype("<f4").tobytes() + memory


def restore(data: bytes, sizes: Sizes, chunk_choices: tuple[int, ...], device: torch.device) -> StreamState:
    """The state that `dump` wrote for a model of these sizes; raises BadRequest for anything else."""
    if len(data) < _HEADER.size:
        raise BadRequest("this is no state of a stream")
    magic, chunk_rows, rows, spoken_until, middle, decoded, heard = _HEADER.unpack_from(data)
    if magic != _MAGIC or chunk_rows not in chunk_choices:
        raise BadRequest("this is no state of a stream of this model")
    state = StreamState(sizes, chunk_rows, device)
    if len(data) != _HEADER.size + state.nbytes:
        raise BadRequest("this is no state of a stream of this model: it has another size")
    values = np.frombuffer(data, "<f4", offset=_HEADER.size).astype(np.float32)
    if not (np.isfinite(values).all() and math.isfinite(middle)):
        raise BadRequest("this state of a stream has a value that is no number")
    context, memory = np.split(values, [CONTEXT_FRAMES * MELS])
    state.rows, state.decoded, state.middle, state.spoken_until = rows, decoded, middle, spoken_until
    state.context = context.reshape(CONTEXT_FRAMES, MELS) if heard else None
    state.memory.copy_(torch.from_numpy(memory))
    return state
