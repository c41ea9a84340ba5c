"""When each token was said, from the firing of Paraformer's time network (FunASR's `ts_prediction_lfr6_standard`)."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

PLACE_SAMPLES = 320
"""A place of the time network: a third of a 60 ms row."""

_FIRED = 1.0 - 1e-4
_NO_WEIGHT = 1e-6
"""A sum below it says of no place that something began there, and cannot be scaled in single precision."""

_SHIFT = -1.5
_SILENCE_PLACES = 5
_LONGEST_PLACES = 12


def token_times(weights: Floats, fires: Floats, tokens: int, samples: int) -> list[tuple[int, int]]:
    """First and last sample of each token, monotone and within the segment's `samples`; empty where they are unknown.

    `weights` and `fires` are those of the segment's own places. A fire is where a token begins; the last one ends the
    last token, so there must be one more fire than tokens: otherwise the weights are scaled so that there is.
    """
    if not tokens:
        return []
    places = _places(fires)
    if len(places) != tokens + 1:
        total = weights.sum()
        if not total > _NO_WEIGHT:
            return []
        places = _places(_integrate(weights * np.float32((tokens + 1) / total)))
    if len(places) != tokens + 1:
        return []
    starts, ends = places[:-1], np.minimum(places[1:], places[:-1] + _LONGEST_PLACES)
    if ends[-1] == places[-1]:  # the last token goes on behind the last fire, in a long rest for half of it
        ends[-1] = len(fires) if len(fires) - places[-1] <= _SILENCE_PLACES else (len(fires) + places[-1]) / 2
    bounds = np.clip(np.stack((starts, ends), axis=1) * PLACE_SAMPLES, 0, samples).astype(int)
    return [(start, end) for start, end in bounds.tolist()]


def _places(fires: Floats) -> npt.NDArray[np.float64]:
    return np.flatnonzero(fires >= np.float32(_FIRED)).astype(np.float64) + _SHIFT


def _integrate(weights: Floats) -> Floats:
    """The running sum of weights, one less after each fire."""
    threshold = np.float32(_FIRED)
    sums = np.empty_like(weights)
    total = np.float32(0)
    for place, weight in enumerate(weights):
        total += weight
        sums[place] = total
        if total >= threshold:
            total -= threshold
    return sums
