"""Whether an engine's error says that memory ran out; by names and words, so that no engine need be imported."""

from streamscribe.core.errors import StreamScribeError

_CLASSES = frozenset({"MemoryError", "OutOfMemoryError", "_ArrayMemoryError"})
"""Python's, PyTorch's, numpy's."""

_WORDS = (
    "out of memory",
    "failed to allocate memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "bad allocation",
)
"""Of CUDA and CTranslate2, ONNX Runtime, PyTorch on a CPU, the operating system, C++; each in lower case."""


def is_out_of_memory(error: BaseException) -> bool:
    """True for an error that a smaller batch may not meet."""
    if isinstance(error, StreamScribeError):
        return False
    if any(kind.__name__ in _CLASSES for kind in type(error).__mro__):
        return True
    words = str(error).lower()
    return any(phrase in words for phrase in _WORDS)
