"""Whether an encoder gives in a batch what it gives alone: asked before it may serve."""

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.models.ports import AudioEncoder, Embedding
from streamscribe.models.warm_up import SHORT, noise

TOLERANCE = 1e-4
"""Relative to the largest value. float32 rounds to 1e-6 of it, and half precision to 1e-3, which texts notice."""

_LENGTHS_MS = (1000, 2300, 2300)
"""One that is padded, and two that even an encoder of equal lengths only takes together."""


def batch_difference(encoder: AudioEncoder) -> tuple[float, Embedding]:
    """How far a batch's embeddings lie from single ones at most, and the embedding of a second of noise.

    Infinite where they differ in shape or are no numbers.
    """
    noises = [np.resize(noise(SHORT), to_samples(length)) for length in _LENGTHS_MS]
    inputs = [encoder.features(noise) for noise in noises]
    alone = [encoder.encode([one])[0] for one in inputs]
    together = encoder.encode(inputs)
    return max(_difference(one, other) for one, other in zip(alone, together, strict=True)), alone[0]


def _difference(alone: Embedding, together: Embedding) -> float:
    if alone.shape != together.shape:
        return float("inf")
    largest, difference = np.abs(alone).max(initial=0.0), np.abs(alone - together).max(initial=0.0)
    if not np.isfinite(difference):
        return float("inf")
    return float(difference / largest) if largest else float(difference)
