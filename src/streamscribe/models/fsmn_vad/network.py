"""The FSMN network on ONNX Runtime: one call serves many sessions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from streamscribe.models.copies import apart, stacked
from streamscribe.models.fsmn_vad.graph import batched

Floats = npt.NDArray[np.float32]
Memory = tuple[Floats, ...]
"""What the network remembers of a stream: for each layer (channels, frames, 1)."""


class Network:
    """Speech or silence for frames: (batch, frames, 400) and memories in, silence's probability and memories out."""

    def __init__(self, model_file: Path, *, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = ort.InferenceSession(
            batched(model_file.read_bytes()), options, providers=["CPUExecutionProvider"]
        )
        _, *memories = self._session.get_inputs()
        self._memory_names = [memory.name for memory in memories]
        self._memory_shape = memories[0].shape[1:]

    @property
    def reach_frames(self) -> int:
        """How many frames before the newest still show in the memories: each layer looks back on the one before it."""
        return int(len(self._memory_names) * self._memory_shape[1])

    def new_memory(self) -> Memory:
        """What a stream that has heard nothing remembers."""
        return (np.zeros(self._memory_shape, np.float32),) * len(self._memory_names)

    def run(self, features: Floats, memories: Sequence[Memory]) -> tuple[npt.NDArray[np.float64], list[Memory]]:
        """Advances each row of the batch by its frames: P(silence) of shape (batch, frames), and the new memories."""
        layers = map(stacked, zip(*memories, strict=True))
        scores, *after = self._session.run(
            None, {"speech": features, **dict(zip(self._memory_names, layers, strict=True))}
        )
        return scores[:, :, 0].astype(np.float64), list(zip(*map(apart, after), strict=True))
