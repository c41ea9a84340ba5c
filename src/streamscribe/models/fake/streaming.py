"""A streaming recogniser whose tokens are a function of the frames alone."""

import math
import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from time import sleep

import numpy as np

from streamscribe.core.errors import BadRequest
from streamscribe.core.tokens import Token
from streamscribe.models.fake.recognizer import is_loud, to_pcm, to_word
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, ChunkRequest, Frames

WINDOW_FRAMES = 40
"""One token is heard in each full window from the stream's start that is not silent, and in what is left at its end."""

_HEADER = struct.Struct("<4sHI")
_MAGIC = b"SPF1"


@dataclass(slots=True)
class _Stream:
    """The length of its chunks, the frames that tokens were made of, and those of the window that is not full yet."""

    chunk_frames: int
    done: int = 0
    rest: Frames = field(default_factory=lambda: np.empty((0, FRAME_SHIFT_SAMPLES), np.float32))


class FakeStreamingRecognizer:
    """Hears the frames of the fake detector, which are samples in rows of 160; equal streams give equal tokens.

    Each step sleeps `cost_ms`, whatever its size. Raises ValueError for frames that contain `recognizer.POISON`.
    """

    chunk_choices_ms = (300, 600, 1200)
    tail_padding_ms = 0

    def __init__(self, cost_ms: float = 0.0) -> None:
        self._cost_s = cost_ms / 1000

    def open(self, chunk_ms: int) -> _Stream:
        """State of a new stream; raises BadRequest for a chunk that is not offered."""
        if chunk_ms not in self.chunk_choices_ms:
            raise BadRequest(f"chunk_ms: {chunk_ms} is none of {self.chunk_choices_ms}", field="chunk_ms")
        return _Stream(chunk_ms // 10)

    def group(self, request: ChunkRequest) -> Hashable:
        """Its chunk length."""
        stream: _Stream = request.state
        return stream.chunk_frames

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        """Advances each stream: a token for each window that became full."""
        if self._cost_s and batch:
            sleep(self._cost_s)
        heard = [_hear(request) for request in batch]
        for request, (stream, _) in zip(batch, heard, strict=True):
            request.state.done, request.state.rest = stream.done, stream.rest
        return [tokens for _, tokens in heard]

    def state_bytes(self, state: _Stream) -> int:
        """The size of a state in memory."""
        return state.rest.nbytes

    def dump(self, state: _Stream) -> bytes:
        """The state for another process."""
        return _HEADER.pack(_MAGIC, state.chunk_frames, state.done) + state.rest.astype("<f4").tobytes()

    def restore(self, data: bytes) -> _Stream:
        """The state that `dump` wrote; raises BadRequest for anything else."""
        rest_bytes = len(data) - _HEADER.size
        if not 0 <= rest_bytes < WINDOW_FRAMES * FRAME_SHIFT_SAMPLES * 4 or rest_bytes % (FRAME_SHIFT_SAMPLES * 4):
            raise BadRequest("this is no state of a stream: it has another size")
        magic, chunk_frames, done = _HEADER.unpack_from(data)
        if magic != _MAGIC or chunk_frames * 10 not in self.chunk_choices_ms:
            raise BadRequest("this is no state of a stream")
        rest = np.frombuffer(data, "<f4", offset=_HEADER.size).astype(np.float32)
        return _Stream(chunk_frames, done, rest.reshape(-1, FRAME_SHIFT_SAMPLES))


def _hear(request: ChunkRequest) -> tuple[_Stream, tuple[Token, ...]]:
    """What becomes of the request's stream, and its new tokens."""
    stream: _Stream = request.state
    frames = np.concatenate((stream.rest, request.frames))
    to_pcm(frames)
    count = math.ceil(len(frames) / WINDOW_FRAMES) if request.last else len(frames) // WINDOW_FRAMES
    tokens = []
    for first in range(0, count * WINDOW_FRAMES, WINDOW_FRAMES):
        window = frames[first : first + WINDOW_FRAMES].reshape(-1)
        start = (stream.done + first) * FRAME_SHIFT_SAMPLES
        if is_loud(window):
            tokens.append(Token(to_word(to_pcm(window)), start, start + len(window), confidence=0.9))
    heard = min(count * WINDOW_FRAMES, len(frames))
    return _Stream(stream.chunk_frames, stream.done + heard, frames[heard:].copy()), tuple(tokens)
