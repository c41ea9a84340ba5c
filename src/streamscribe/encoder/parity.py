"""Whether an encoder gives in a batch what it gives alone: asked before it may serve."""

from math import inf

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.models.embedding import flaw
from streamscribe.models.ports import AudioEncoder, Embedding
from streamscribe.models.warm_up import SHORT, noise
from streamscribe.observe.logs import get_logger

TOLERANCE = 1e-4
"""Relative to the largest value. float32 rounds to 1e-6 of it, and half precision to 1e-3, which texts notice."""

_LENGTHS_MS = (1000, 2300, 2300)
"""One that is padded, and two that even an encoder of equal lengths only takes together."""

_log = get_logger(__name__)


def batch_difference(encoder: AudioEncoder) -> tuple[float, Embedding]:
    """How far a batch's embeddings lie from single ones at most, and the embedding of a second of noise.

    Infinite where the batch fails, or gives something else than as many arrays of the same kind, of finite numbers.
    """
    noises = [np.resize(noise(SHORT), to_samples(length)) for length in _LENGTHS_MS]
    inputs = [encoder.features(noise) for noise in noises]
    alone = [encoder.encode([one])[0] for one in inputs]
    try:
        together = list(encoder.encode(inputs))
    except Exception as error:  # noqa: BLE001 - the engine's edge: it may raise anything
        _log.error("an encoder cannot encode a batch", exc_info=error)
        together = []
    if len(together) != len(alone):
        return inf, alone[0]
    return max(map(_difference, alone, together)), alone[0]


def _difference(alone: Embedding, together: Embedding) -> float:
    if flaw(together, *alone.shape) is not None:
        return inf
    largest, difference = np.abs(alone).max(initial=0.0), np.abs(alone - together).max(initial=0.0)
    if not np.isfinite(difference):
        return inf
    return float(difference / largest) if largest else float(difference)
