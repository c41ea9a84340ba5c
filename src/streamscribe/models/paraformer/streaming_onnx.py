"""The streaming Paraformer on ONNX Runtime: many sessions' chunks in one run of FunASR's official export."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.tokens import Token
from streamscribe.models.lfr import STRIDE, Rows, check_frontend
from streamscribe.models.paraformer.chunk_decoder import ChunkDecoder, Said
from streamscribe.models.paraformer.chunk_encoder import ChunkEncoder
from streamscribe.models.paraformer.chunk_grid import CHUNK_ROWS, ChunkGrid, check_frames, end_of, rows_of
from streamscribe.models.paraformer.chunk_state import LOOK_BACK_ROWS, OVERLAP_ROWS, Sizes, StreamState
from streamscribe.models.paraformer.chunk_tokens import middle_rows, timed_tokens
from streamscribe.models.paraformer.cif import Fired, integrate
from streamscribe.models.paraformer.features import CONTEXT_FRAMES, ChunkFrontend, row_count
from streamscribe.models.ports import ChunkRequest

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Chunks:
    """A batch as the model takes it: `lengths` are the rows that each chunk has, of as many as the longest has."""

    states: list[StreamState]
    rows: Rows
    lengths: npt.NDArray[np.int32]
    last: npt.NDArray[np.bool_]
    ends: list[int]
    """The sample at which each stream's audio ends so far."""


class OnnxStreamingParaformer(ChunkGrid):
    """Hears streams as FunASR does with chunks of [5, n, 5] rows and no look-back; not thread-safe.

    A stream's last chunk, however short, shares the step of whole ones, and its rows have no context behind them.
    With int8 graphs, which round by the largest value of a whole batch, equal streams are heard alike but for the
    confidences and what is as likely as another token.
    """

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1, tail_padding_ms: int = 0) -> None:
        """Builds it from `model.onnx` and `decoder.onnx` (or their `_quant` forms) and the files beside them.

        These are `config.yaml`, `tokens.json` and `am.mvn`. Raises ModelUnavailable for another kind of model.
        """
        super().__init__(tail_padding_ms)
        config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
        if config["model"] != "ParaformerStreaming":
            raise ModelUnavailable("config.yaml has a model other than ParaformerStreaming")
        check_frontend(config)
        self._vocabulary: list[str] = json.loads(files["tokens.json"].read_bytes())
        self._threshold = float(config["predictor_conf"]["threshold"])
        self._tail = float(config["predictor_conf"]["tail_threshold"])
        self._frontend = ChunkFrontend(files["am.mvn"])
        self._encoder = ChunkEncoder(files, width=config["encoder_conf"]["output_size"], threads=threads)
        self._decoder = ChunkDecoder(files, threads=threads)
        self._sizes = Sizes(config["encoder_conf"]["output_size"], self._decoder.layers, self._decoder.history)

    def open(self, chunk_ms: int) -> StreamState:
        """State of a new stream; raises BadRequest for a chunk that is not offered."""
        return StreamState.new(rows_of(chunk_ms), self._sizes)

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        """Advances each request's state by its frames; the tokens that came out of each, all of one group."""
        if not batch:
            return []
        chunks = self._read(batch)
        entered = self._encoder.enter(chunks.states, chunks.rows)
        hidden, fired = self._fire(chunks, entered)
        embeddings = fired.weights @ hidden
        said = self._decoder.run(
            hidden[:, 1:-1], chunks.lengths + OVERLAP_ROWS, embeddings, fired.counts, [s.history for s in chunks.states]
        )
        carried = (fired.carried_weights[:, np.newaxis] @ hidden)[:, 0]
        middles = [
            middle_rows(where, state.rows - OVERLAP_ROWS, state.middle)
            for state, where in zip(chunks.states, fired.middles.tolist(), strict=True)
        ]
        tokens = [
            self._tokens(state, one, middle, end)
            for state, one, middle, end in zip(chunks.states, said, middles, chunks.ends, strict=True)
        ]
        for index, (request, state) in enumerate(zip(batch, chunks.states, strict=True)):
            if request.last:
                continue
            state.rows += state.chunk_rows
            state.overlap = entered[index, -OVERLAP_ROWS:].copy()
            state.context = np.array(request.frames[-CONTEXT_FRAMES:], np.float32)
            state.weight, state.hidden = float(fired.carried[index]), carried[index].copy()
            state.middle = middles[index][int(fired.counts[index])]
            state.history = said[index].history
            if tokens[index]:
                state.spoken_until = tokens[index][-1].end
        return tokens

    def state_bytes(self, state: StreamState) -> int:
        """The size of a state in memory."""
        return sum(array.nbytes for array in state.arrays)

    def dump(self, state: StreamState) -> bytes:
        """The state for another process with the same model."""
        return state.dump()

    def restore(self, data: bytes) -> StreamState:
        """The state that `dump` wrote; raises BadRequest for anything else."""
        return StreamState.restore(data, self._sizes, CHUNK_ROWS)

    def _read(self, batch: Sequence[ChunkRequest]) -> _Chunks:
        """Raises BadRequest for frames of another shape or number than a chunk has."""
        for request in batch:
            check_frames(request)
        states: list[StreamState] = [request.state for request in batch]
        counts = [len(request.frames) for request in batch]
        lengths = np.array([row_count(count) for count in counts], np.int32)
        contexts = [state.context if state.rows else None for state in states]
        rows = self._frontend.rows(contexts, [request.frames for request in batch], int(lengths.max()))
        ends = [end_of(state.rows * STRIDE + count) for state, count in zip(states, counts, strict=True)]
        return _Chunks(states, rows, lengths, np.array([request.last for request in batch]), ends)

    def _fire(self, chunks: _Chunks, entered: Rows) -> tuple[Floats, Fired]:
        """The encoder's rows between the one that is carried over and a last one of silence, and what fires in them."""
        lengths = chunks.lengths + OVERLAP_ROWS
        encoded, weights = self._encoder.run(entered, lengths)
        size, width, _ = encoded.shape
        columns = np.arange(width)
        # The look-back was heard with the last chunk; a look-ahead is heard with the next one, if there is any.
        hearable = np.where(chunks.last, lengths, LOOK_BACK_ROWS + chunks.lengths)[:, np.newaxis]
        alphas = np.zeros((size, width + 2), np.float32)
        alphas[:, 0] = [state.weight for state in chunks.states]
        alphas[:, 1:-1] = np.where((columns >= LOOK_BACK_ROWS) & (columns < hearable), weights, 0)
        # Nothing can be left of a stream that has not begun.
        ending = chunks.last & np.array([end > 0 for end in chunks.ends])
        alphas[ending, 1 + lengths[ending]] = self._tail
        alphas[chunks.last & ~ending] = 0
        hidden = np.zeros((size, width + 2, encoded.shape[2]), np.float32)
        hidden[:, 0] = [state.hidden for state in chunks.states]
        hidden[:, 1:-1] = np.where((columns < lengths[:, np.newaxis])[:, :, np.newaxis], encoded, 0)
        return hidden, integrate(alphas, self._threshold)

    def _tokens(self, state: StreamState, said: Said, middles: list[float], end: int) -> tuple[Token, ...]:
        """Those that are text."""
        texts = map(self._vocabulary.__getitem__, said.ids)
        heard = [one for one in zip(texts, said.confidences, middles, strict=False) if one[0] not in _NO_TEXT]
        return timed_tokens(heard, state.spoken_until, end)


_NO_TEXT = frozenset(("<blank>", "<s>", "</s>", "<unk>"))
