"""The chunks of a streaming Paraformer, in rows of 60 ms: what its engines have alike, whatever computes them."""

from collections.abc import Hashable

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest
from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import STRIDE
from streamscribe.models.ports import FRAME_SAMPLES, FRAME_SHIFT_SAMPLES, ChunkRequest

ROW_SAMPLES = STRIDE * FRAME_SHIFT_SAMPLES
ROW_MS = 1000 * ROW_SAMPLES // SAMPLE_RATE
CHUNK_ROWS = (5, 10, 20)
"""The chunk lengths that FunASR trains its models for."""
LOOK_AHEAD_ROWS = 5
"""Rows behind a chunk that the encoder reads before the chunk's tokens come out."""


class ChunkGrid:
    """The part of a streaming recogniser's port that says how streams are cut into chunks.

    The state of a stream has `chunk_rows`, the length of its chunks. `tail_padding_ms` is what the model was measured
    to need.
    """

    chunk_choices_ms = tuple(rows * ROW_MS for rows in CHUNK_ROWS)

    def __init__(self, tail_padding_ms: int) -> None:
        self.tail_padding_ms = tail_padding_ms

    def group(self, request: ChunkRequest) -> Hashable:
        """Its chunk length: streams of any age, and last chunks of any length, share a step."""
        rows: int = request.state.chunk_rows
        return rows


def rows_of(chunk_ms: int) -> int:
    """The rows of a chunk; raises BadRequest for a length that is not offered."""
    if chunk_ms not in ChunkGrid.chunk_choices_ms:
        raise BadRequest(f"chunk_ms: {chunk_ms} is none of {ChunkGrid.chunk_choices_ms}", field="chunk_ms")
    return chunk_ms // ROW_MS


def check_frames(request: ChunkRequest) -> None:
    """Raises BadRequest for frames of another shape or number than a chunk of the request's stream has."""
    whole, shape = request.state.chunk_rows * STRIDE, request.frames.shape
    if shape[1:] != (MELS,) or not (shape[0] == whole or (request.last and shape[0] < whole)):
        raise BadRequest(f"a chunk is {whole} frames of {MELS} bands, not {shape}")


def end_of(frames: int) -> int:
    """The sample where a stream of so many frames ends; 0 where there is none."""
    return (frames - 1) * FRAME_SHIFT_SAMPLES + FRAME_SAMPLES if frames else 0
