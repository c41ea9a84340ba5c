"""What an embedding must be: looked at where an encoder gives it, and where a cache does."""

import numpy as np

from streamscribe.models.ports import Embedding


class NotAnEmbedding(Exception):
    """An encoder gave something else; the message names what is wrong, and no value."""


def flaw(given: object, rows: int, width: int) -> str | None:
    """What keeps it from being a float32 array of so many rows and columns that are all finite; None: nothing."""
    if not isinstance(given, np.ndarray):
        return "type"
    if given.shape != (rows, width):
        return "shape"
    if given.dtype != np.float32:
        return "dtype"
    return None if np.isfinite(given).all() else "values"


def checked(given: Embedding, rows: int, width: int) -> Embedding:
    """What was given; raises NotAnEmbedding."""
    if wrong := flaw(given, rows, width):
        raise NotAnEmbedding(f"an encoder gave no valid embedding: {wrong}")
    return given


def frozen(embedding: Embedding) -> Embedding:
    """An array of its own, for a view would keep its whole batch in memory, that nobody can write to."""
    own = embedding if embedding.base is None else embedding.copy()
    own.flags.writeable = False
    return own
