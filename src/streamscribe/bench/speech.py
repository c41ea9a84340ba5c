"""Speech for loads that a real-time clock does not pace: voices that speak without a pause, and minutes with pauses."""

from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
import numpy.typing as npt

from streamscribe.bench.recordings import QUIET, recordings
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.ports import Samples

Pcm = npt.NDArray[np.int16]

PAUSE_S = 1.6
"""Longer than the silence that ends a segment."""


def unbroken(voices: int, seconds: float) -> list[Pcm]:
    """Recordings end to end, each voice beginning with another one."""
    spoken = [_without_silence(one.samples[: one.speech_end]) for one in recordings()]
    return [_joined(spoken[at % len(spoken) :] + spoken[: at % len(spoken)], seconds) for at in range(voices)]


def with_pauses(seconds: float) -> Pcm:
    """One voice that says recordings one after the other; the last pause is cut off where the time is over."""
    pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.int16)
    return _joined([part for one in recordings() for part in (one.samples, pause)], seconds)


def as_samples(pcm: Pcm) -> Samples:
    """In [-1, 1], as models take them."""
    return pcm.astype(np.float32) / np.float32(1 << 15)


def _without_silence(samples: Pcm) -> Pcm:
    """From the first sound on."""
    return samples[int(np.argmax(np.abs(samples.astype(np.int32)) > QUIET)) :]


def _joined(parts: Sequence[Pcm], seconds: float) -> Pcm:
    length = int(seconds * SAMPLE_RATE)
    return np.concatenate(list(_enough(parts, length)))[:length]


def _enough(parts: Sequence[Pcm], length: int) -> Iterator[Pcm]:
    for part in cycle(parts):
        yield part
        length -= len(part)
        if length <= 0:
            return
