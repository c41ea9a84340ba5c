"""Sessions' arrays to a batch and back, without letting go of the interpreter lock at each.

NumPy lets go of it in every copy of more than 500 elements. Between threads that have work, getting it back takes as
long as the others let it: a step that copies 64 sessions' arrays one by one waits for the event loop a hundred times.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def joined(arrays: Iterable[Floats]) -> Floats:
    """What the contiguous arrays hold, one after the other; flat, read-only."""
    return np.frombuffer(b"".join([array.data for array in arrays]), np.float32)


def stacked(arrays: Sequence[Floats]) -> Floats:
    """The contiguous arrays, all of one shape, along a new first axis; read-only."""
    return joined(arrays).reshape(len(arrays), *arrays[0].shape)


def apart(batch: Floats) -> list[Floats]:
    """A copy of each row, read-only: none keeps the whole batch in memory."""
    return [np.frombuffer(row.tobytes(), np.float32).reshape(row.shape) for row in batch]
