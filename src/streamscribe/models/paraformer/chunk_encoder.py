"""The encoder of a streaming Paraformer as FunASR exports it: without memory, so that a chunk brings its context."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import STACKED, Rows
from streamscribe.models.onnx_session import open_session, read_graph
from streamscribe.models.paraformer.chunk_state import OVERLAP_ROWS, StreamState
from streamscribe.models.paraformer.exact_batch import silence_padding

Floats = npt.NDArray[np.float32]


class ChunkEncoder:
    """Encodes chunks of many streams, of unequal lengths too; not thread-safe."""

    def __init__(self, files: Mapping[str, Path], *, width: int, threads: int) -> None:
        """Reads `model.onnx` or `model_quant.onnx`, whose rows come out `width` wide."""
        graph = read_graph(files)
        silence_padding(graph.graph)
        self._session = open_session(graph, threads=threads)
        self._scale = np.float32(width**0.5)
        half = STACKED * MELS // 2
        self._frequencies = np.exp(np.arange(half) * -(np.log(10_000) / (half - 1))).astype(np.float32)

    def enter(self, states: Sequence[StreamState], rows: Rows) -> Rows:
        """Rows scaled and coded by position (FunASR's `StreamSinusoidalPositionEncoder`), behind the overlaps."""
        streams, count, width = rows.shape
        positions = np.array([state.rows for state in states])[:, np.newaxis] + np.arange(1, count + 1)
        angles = positions.astype(np.float32)[:, :, np.newaxis] * self._frequencies
        entered = np.empty((streams, OVERLAP_ROWS + count, width), np.float32)
        entered[:, :OVERLAP_ROWS] = [state.overlap for state in states]
        new = entered[:, OVERLAP_ROWS:]
        np.multiply(rows, self._scale, out=new)
        new[:, :, : width // 2] += np.sin(angles)
        new[:, :, width // 2 :] += np.cos(angles)
        return entered

    def run(self, entered: Rows, lengths: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Encoded rows (streams, rows, width) and the weight of each; those behind a stream's length are of no use."""
        encoded, weights = self._session.run(["enc", "alphas"], {"speech": entered, "speech_lengths": lengths})
        return encoded, weights
