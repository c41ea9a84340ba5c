"""Continuous integrate-and-fire over a batch of chunks: where tokens fire, when they were said, what each is made of.

CIF (https://arxiv.org/abs/1905.11235) adds up a weight for each row until the sum reaches a threshold: there a token
fires, and its embedding is the weighted sum of the rows since the last one. The sums here are those of FunASR's
`CifPredictorV2.forward_chunk`, in the same order and precision, so that the same tokens fire.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Fired:
    """What came of a batch of chunks, of `columns` weights each, the first of them carried over.

    `weights` (chunks, tokens, columns) makes token embeddings of the rows; `counts` says how many tokens each chunk
    has. `carried` is the sum left behind, and `carried_weights` (chunks, columns) make the row that stands for it.
    `middles` (chunks, tokens + 1) tell in which column, with the fraction passed, half of each token's weight was
    there; the one behind a chunk's tokens is that of what it carries on, for what it is worth so far.
    """

    weights: Floats
    counts: npt.NDArray[np.int64]
    carried: Floats
    carried_weights: Floats
    middles: Floats


def integrate(alphas: Floats, threshold: float) -> Fired:
    """Integrates each chunk's column weights (chunks, columns), none of which is above the threshold."""
    chunks, columns = alphas.shape
    limit = np.float32(threshold)
    fires = np.zeros((chunks, columns), bool)
    before = np.zeros((chunks, columns), np.float32)
    beyond = np.zeros((chunks, columns), np.float32)
    total = np.zeros(chunks, np.float32)
    for column in range(columns):
        alpha = alphas[:, column]
        reached = total + alpha
        fire = fires[:, column] = reached >= limit
        before[:, column] = np.where(fire, limit - total, alpha)
        total = beyond[:, column] = np.where(fire, reached - limit, reached)
    # A column belongs to the token that fires next; what it has beyond the threshold, to the one after.
    owner = np.cumsum(fires, axis=1) - fires
    counts = fires.sum(axis=1)
    every = np.arange(chunks)
    weights = np.zeros((chunks, int(counts.max(initial=0)) + 1, columns), np.float32)
    weights[every[:, np.newaxis], owner, np.arange(columns)] = before
    fired, at = np.nonzero(fires)
    weights[fired, owner[fired, at] + 1, at] = beyond[fired, at]
    carried = weights[every, counts] / np.where(total > 0, total, np.float32(1))[:, np.newaxis]
    return Fired(weights[:, :-1], counts, total, carried, _middles(weights, limit / 2))


def _middles(weights: Floats, half: np.float32) -> Floats:
    """Where each token's running sum passes `half`, in columns; at the end of the last one where it does not yet."""
    sums = np.cumsum(weights, axis=2)
    at = np.argmax(sums >= half, axis=2)[:, :, np.newaxis]
    weight = np.take_along_axis(weights, at, axis=2)
    missing = half - (np.take_along_axis(sums, at, axis=2) - weight)
    fraction = np.divide(missing, weight, out=np.zeros_like(weight), where=weight > 0)
    middles: Floats = np.minimum(at + fraction, weights.shape[2])[:, :, 0].astype(np.float32)
    return middles
