"""The FSMN network on ONNX Runtime, its fixed batch of one made free, so that one call serves many sessions."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

Floats = npt.NDArray[np.float32]


class Network:
    """Speech or silence for frames: (batch, frames, 400) and memories in, silence's probability and memories out."""

    def __init__(self, model_file: Path, *, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = ort.InferenceSession(
            _free_batch(model_file.read_bytes()), options, providers=["CPUExecutionProvider"]
        )
        _, *memories = self._session.get_inputs()
        self._memory_names = [memory.name for memory in memories]
        self._memory_shape = (len(memories), *memories[0].shape[1:])

    @property
    def reach_frames(self) -> int:
        """How many frames before the newest still show in the memories: each layer looks back on the one before it."""
        return int(self._memory_shape[0] * self._memory_shape[2])

    def new_memory(self) -> Floats:
        """What a stream that has heard nothing remembers; shape (layers, channels, frames, 1)."""
        return np.zeros(self._memory_shape, np.float32)

    def run(self, features: Floats, memories: list[Floats]) -> tuple[npt.NDArray[np.float64], list[Floats]]:
        """Advances each row of the batch by its frames: P(silence) of shape (batch, frames), and the new memories."""
        stacked = np.stack(memories, axis=1)
        feed = dict(zip(self._memory_names, stacked, strict=True))
        scores, *after = self._session.run(None, {"speech": features, **feed})
        # Each memory is a copy of its own, so that no session keeps a whole batch alive.
        return scores[:, :, 0].astype(np.float64), [row.copy() for row in np.stack(after, axis=1)]


def _free_batch(model: bytes) -> bytes:
    """The same graph with a named first axis; no node of it depends on the batch being one."""
    graph = onnx.load_model_from_string(model)
    for value in (*graph.graph.input, *graph.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return bytes(graph.SerializeToString())
