"""Streaming Paraformer in PyTorch, on a CPU or a GPU: many sessions' chunks in one model step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from streamscribe.core.tokens import Token
from streamscribe.models.funasr_torch import state as states
from streamscribe.models.funasr_torch.device import open_device
from streamscribe.models.funasr_torch.load import load_streaming
from streamscribe.models.funasr_torch.network import ChunkNetwork, Heard, Piece
from streamscribe.models.funasr_torch.state import StreamState
from streamscribe.models.lfr import STRIDE
from streamscribe.models.paraformer.chunk_grid import CHUNK_ROWS, ChunkGrid, check_frames, end_of, rows_of
from streamscribe.models.paraformer.chunk_tokens import timed_tokens
from streamscribe.models.paraformer.features import CONTEXT_FRAMES, ChunkFrontend, row_count
from streamscribe.models.ports import ChunkRequest

_TAIL_FRAMES = 4
"""With fewer last frames FunASR takes its tail chunk: they are those of a rest of audio below 60 ms."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A request as the network takes it: so many rows, whether the stream ends with them, and if a tail chunk follows.

    A whole chunk that ends its stream is a chunk and a tail, on a copy of the state, so that it can fail between them.
    `end` is the sample where the stream ends so far.
    """

    state: StreamState
    rows: int
    last: bool
    then_tail: bool
    end: int


class TorchStreamingParaformer(ChunkGrid):
    """Recognises streams as FunASR's `AutoModel.generate(cache=...)` does, token for token, with look-back 4 and 1.

    Not thread-safe: one thread owns it.
    """

    def __init__(
        self, files: Mapping[str, Path], *, device: str = "cpu", threads: int = 1, tail_padding_ms: int = 0
    ) -> None:
        """Loads a FunASR directory by its files `config.yaml`, `model.pt`, `tokens.json` and `am.mvn`."""
        super().__init__(tail_padding_ms)
        self._device = open_device(device, threads=threads)
        modules = load_streaming(files, self._device)
        self._tokens, self._silent = modules.tokens, modules.silent_ids
        self._network = ChunkNetwork(modules)
        self._frontend = ChunkFrontend(files["am.mvn"])

    def open(self, chunk_ms: int) -> StreamState:
        """State of a new stream; raises BadRequest for a chunk that is not offered."""
        with torch.inference_mode():
            return StreamState(self._network.sizes, rows_of(chunk_ms), self._device)

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        """Advances each request's state by its frames; the tokens that came out of each, all of one group."""
        if not batch:
            return []
        with torch.inference_mode():
            return self._step(batch)

    def _step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        cuts = [_cut(request) for request in batch]
        outcome = self._network.run(self._pieces(batch, cuts))
        heard = outcome.tokens
        tails = [index for index, cut in enumerate(cuts) if cut.then_tail]
        if tails:
            for index in tails:
                outcome.advance(index)
            nothing = torch.zeros((0, self._network.sizes.row_width), device=self._device)
            rest = self._network.run([Piece(cuts[index].state, nothing, last=True) for index in tails])
            for index, more in zip(tails, rest.tokens, strict=True):
                heard[index] = heard[index] + more
        found = [self._tokens_of(cut, tokens) for cut, tokens in zip(cuts, heard, strict=True)]
        for index, (request, cut) in enumerate(zip(batch, cuts, strict=True)):
            if not request.last:
                outcome.advance(index)
                cut.state.context = np.array(request.frames[-CONTEXT_FRAMES:], np.float32)
                cut.state.spoken_until = found[index][-1].end if found[index] else cut.state.spoken_until
        return found

    def _pieces(self, batch: Sequence[ChunkRequest], cuts: Sequence[_Cut]) -> list[Piece]:
        contexts = [cut.state.context for cut in cuts]
        longest = max(1, *(cut.rows for cut in cuts))
        rows = self._frontend.rows(contexts, [request.frames for request in batch], longest)
        on_device = torch.from_numpy(rows).to(self._device)
        return [Piece(cut.state, on_device[index, : cut.rows], cut.last) for index, cut in enumerate(cuts)]

    def state_bytes(self, state: StreamState) -> int:
        """The size of a state in memory."""
        return state.nbytes

    def dump(self, state: StreamState) -> bytes:
        """The state for another process with the same model."""
        return states.dump(state)

    def restore(self, data: bytes) -> StreamState:
        """The state that `dump` wrote; raises BadRequest for anything else."""
        with torch.inference_mode():
            return states.restore(data, self._network.sizes, CHUNK_ROWS, self._device)

    def _tokens_of(self, cut: _Cut, heard: Sequence[Heard]) -> tuple[Token, ...]:
        """Those that are text; none of a stream without a frame."""
        spoken = [one for one in heard if one.id not in self._silent] if cut.end else []
        told = ((self._tokens[one.id], min(1.0, math.exp(one.log_probability)), one.row) for one in spoken)
        return timed_tokens(told, cut.state.spoken_until, cut.end)


def _cut(request: ChunkRequest) -> _Cut:
    """Raises BadRequest for frames of another shape or number than a chunk has."""
    check_frames(request)
    state, count = request.state, len(request.frames)
    # The last two frames of a chunk belong to no row of it.
    ends_whole = request.last and count >= state.chunk_rows * STRIDE - (CONTEXT_FRAMES - 1)
    last_rows = row_count(count) if count >= _TAIL_FRAMES else 0
    rows = state.chunk_rows if ends_whole or not request.last else last_rows
    end = end_of(state.rows * STRIDE + count)
    return _Cut(state.copy() if ends_whole else state, rows, request.last and not ends_whole, ends_whole, end)
