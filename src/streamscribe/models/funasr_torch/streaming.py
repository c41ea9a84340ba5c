"""Streaming Paraformer in PyTorch, on a CPU or a GPU: many sessions' chunks in one model step."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest
from streamscribe.core.tokens import Token
from streamscribe.models.fbank import MELS
from streamscribe.models.funasr_torch import state as states
from streamscribe.models.funasr_torch.device import memory_errors, open_device
from streamscribe.models.funasr_torch.load import load_streaming
from streamscribe.models.funasr_torch.network import ChunkNetwork, Heard, Piece
from streamscribe.models.funasr_torch.rows import CONTEXT_FRAMES, stack
from streamscribe.models.funasr_torch.state import LOOK_AHEAD_ROWS, StreamState
from streamscribe.models.lfr import STRIDE, read_normalisation
from streamscribe.models.ports import FRAME_SAMPLES, FRAME_SHIFT_SAMPLES, ChunkRequest

_ROW_SAMPLES = STRIDE * FRAME_SHIFT_SAMPLES
_ROW_MS = 1000 * _ROW_SAMPLES // SAMPLE_RATE
_CHUNK_ROWS = (5, 10, 20)
_HALF_TOKEN_SAMPLES = 2 * _ROW_SAMPLES
"""A token is told to last from 120 ms before the middle of its weight to 120 ms after it."""

_ROW_CENTRE_SAMPLES = (FRAME_SAMPLES - _ROW_SAMPLES) // 2
"""A row hears around the middle of its fourth frame; so far behind its beginning on the 60 ms grid does it begin."""

_TAIL_FRAMES = 4
"""With fewer last frames FunASR takes its tail chunk: they are those of a rest of audio below 60 ms."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A request as the network takes it: a piece, and whether a tail chunk follows it.

    A whole chunk that ends its stream is a chunk and a tail, on a copy of the state, so that it can fail between them.
    """

    piece: Piece
    then_tail: bool


class TorchStreamingParaformer:
    """Recognises streams as FunASR's `AutoModel.generate(cache=...)` does, token for token, with look-back 4 and 1.

    Not thread-safe: one thread owns it. Raises MemoryError from a step for which there was not enough memory.
    """

    def __init__(self, files: Mapping[str, Path], *, device: str = "cpu", threads: int = 1) -> None:
        """Loads a FunASR directory by its files `config.yaml`, `model.pt`, `tokens.json` and `am.mvn`."""
        self._device = open_device(device, threads=threads)
        modules = load_streaming(files, self._device)
        self._tokens, self._silent = modules.tokens, modules.silent_ids
        self._network = ChunkNetwork(modules)
        self._shift, self._scale = read_normalisation(files["am.mvn"])

    @property
    def chunk_choices_ms(self) -> tuple[int, ...]:
        """300, 600 and 1200 ms."""
        return tuple(rows * _ROW_MS for rows in _CHUNK_ROWS)

    @property
    def lookahead_ms(self) -> int:
        """300 ms: the rows that the encoder reads ahead."""
        return LOOK_AHEAD_ROWS * _ROW_MS

    @property
    def tail_padding_ms(self) -> int:
        """What the model needs behind the last sound."""
        return 0

    def open(self, chunk_ms: int) -> StreamState:
        """State of a new stream; raises BadRequest for a chunk that is not offered."""
        if chunk_ms not in self.chunk_choices_ms:
            raise BadRequest(f"chunk_ms: {chunk_ms} is none of {self.chunk_choices_ms}", field="chunk_ms")
        with torch.inference_mode(), memory_errors():
            return StreamState(self._network.sizes, chunk_ms // _ROW_MS, self._device)

    def group(self, request: ChunkRequest) -> Hashable:
        """Its chunk length: streams of any age, and last chunks of any length, share a step."""
        rows: int = request.state.chunk_rows
        return rows

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        """Advances each request's state by its frames; the tokens that came out of each, all of one group."""
        if not batch:
            return []
        with torch.inference_mode(), memory_errors():
            return self._step(batch)

    def _step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        cuts = [self._cut(request) for request in batch]
        outcome = self._network.run([cut.piece for cut in cuts])
        heard = outcome.tokens
        tails = [index for index, cut in enumerate(cuts) if cut.then_tail]
        if tails:
            for index in tails:
                outcome.advance(index)
            rest = self._network.run([Piece(cuts[i].piece.state, self._no_rows(), last=True) for i in tails])
            for index, more in zip(tails, rest.tokens, strict=True):
                heard[index] = heard[index] + more
        found = [self._tokens_of(request.state, tokens) for request, tokens in zip(batch, heard, strict=True)]
        for index, request in enumerate(batch):
            if not request.last:
                outcome.advance(index)
                request.state.context = np.array(request.frames[-CONTEXT_FRAMES:], np.float32)
                request.state.spoken_until = found[index][-1].end if found[index] else request.state.spoken_until
        return found

    def state_bytes(self, state: StreamState) -> int:
        """The size of a state in memory."""
        return state.nbytes

    def dump(self, state: StreamState) -> bytes:
        """The state for another process with the same model."""
        return states.dump(state)

    def restore(self, data: bytes) -> StreamState:
        """The state that `dump` wrote; raises BadRequest for anything else."""
        with torch.inference_mode(), memory_errors():
            return states.restore(data, self._network.sizes, _CHUNK_ROWS, self._device)

    def _cut(self, request: ChunkRequest) -> _Cut:
        """Raises BadRequest for frames of another shape or number than a chunk has."""
        state, frames, whole = request.state, request.frames, request.state.chunk_rows
        count = len(frames)
        if frames.shape[1:] != (MELS,) or count > whole * STRIDE or (count < whole * STRIDE and not request.last):
            raise BadRequest(f"a chunk is {whole * STRIDE} frames of {MELS} bands, not {frames.shape}")
        # The last two frames of a chunk belong to no row of it.
        ends_whole = request.last and count >= whole * STRIDE - (CONTEXT_FRAMES - 1)
        rows = whole if not request.last or ends_whole else _last_rows(count)
        normal = (stack(state.context, frames, rows) + self._shift) * self._scale
        if ends_whole:
            state = state.copy()
        return _Cut(
            Piece(state, torch.from_numpy(normal).to(self._device), request.last and not ends_whole), ends_whole
        )

    def _no_rows(self) -> torch.Tensor:
        return torch.zeros((0, self._network.sizes.row_width), device=self._device)

    def _tokens_of(self, state: StreamState, heard: Sequence[Heard]) -> tuple[Token, ...]:
        """Those that are text; their times follow each other without overlap."""
        tokens = []
        until = state.spoken_until
        for one in heard:
            if one.id not in self._silent:
                middle = round(one.row * _ROW_SAMPLES) + _ROW_CENTRE_SAMPLES
                start = max(until, middle - _HALF_TOKEN_SAMPLES)
                until = max(start, middle + _HALF_TOKEN_SAMPLES)
                tokens.append(Token(self._tokens[one.id], start, until, min(1.0, math.exp(one.log_probability))))
        return tuple(tokens)


def _last_rows(frames: int) -> int:
    return math.ceil(frames / STRIDE) if frames >= _TAIL_FRAMES else 0
