"""A recogniser whose text is a function of the samples alone."""

import os
from collections.abc import Sequence
from functools import cache
from time import sleep
from zlib import crc32

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.models.ports import Hypothesis, HypothesisWord, Identity, Samples, SegmentRequest

WINDOW_SAMPLES = to_samples(400)
"""One word is heard in each full window from the segment's start that is not silent."""

POISON = b"This audio makes the fake raise."
"""PCM s16le bytes (16 samples that nobody speaks) for which the recogniser raises."""

DEADLY = b"This audio makes the fake exit!!"
"""As POISON, but the whole process ends at once, as engines end it that step beyond their memory."""

FATTENING = b"This audio makes the fake grow!!"
"""As POISON, but the process has HOARD_BYTES more from then on, as with an engine that leaks."""

HOARD_BYTES = 2**28

_QUIET_RMS = 0.005

_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


class FakeRecognizer:
    """Equal samples give equal text, other samples other text; a draft of a beginning is a beginning of the final.

    Each step sleeps `cost_ms`, whatever its size. Raises ValueError for audio that contains POISON.
    """

    tail_padding_ms = 300

    def __init__(self, cost_ms: float = 0.0) -> None:
        self._cost_s = cost_ms / 1000

    @property
    def identity(self) -> Identity:
        """The fake one."""
        return ("fake", 1)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    @property
    def max_samples(self) -> int:
        """Whisper's window, so that the platform cuts alike."""
        return to_samples(30_000)

    def check_language(self, code: str) -> None:
        """Knows all of them."""

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis each: a word for each window, with the window's times."""
        if self._cost_s and batch:
            sleep(self._cost_s)
        return [_hear(request) for request in batch]


def _hear(request: SegmentRequest) -> Hypothesis:
    pcm = to_pcm(request.samples)
    words = tuple(
        HypothesisWord(to_word(pcm[2 * start : 2 * end]), start, end, confidence=0.9)
        for start, end in _windows(request.samples)
    )
    return Hypothesis(
        text=" ".join(word.text for word in words),
        language=request.language or "en",
        confidence=0.9 if words else 0.0,
        words=words if request.words else (),
    )


def to_pcm(samples: Samples) -> bytes:
    """The samples as a client sent them; raises ValueError for poison, and does as the other marks say."""
    pcm = (np.clip(samples, -1.0, 1.0 - 2**-15) * 32768).astype("<i2").tobytes()
    if POISON in pcm:
        raise ValueError("poisoned audio")
    if DEADLY in pcm:
        os._exit(os.EX_SOFTWARE)
    if FATTENING in pcm:
        _hoard()
    return pcm


@cache
def _hoard() -> bytes:
    return b"\1" * HOARD_BYTES


def to_word(pcm: bytes) -> str:
    """Three syllables: one of 343,000 words."""
    digest = crc32(pcm)
    count = len(_SYLLABLES)
    return "".join(_SYLLABLES[digest // count**place % count] for place in range(3))


def _windows(samples: Samples) -> list[tuple[int, int]]:
    """The full windows that are not silent; audio shorter than one is a window of its own."""
    count = max(1, len(samples) // WINDOW_SAMPLES)
    spans = [(i * WINDOW_SAMPLES, min((i + 1) * WINDOW_SAMPLES, len(samples))) for i in range(count)]
    return [(start, end) for start, end in spans if is_loud(samples[start:end])]


def is_loud(samples: Samples) -> bool:
    """Whether somebody speaks."""
    return len(samples) > 0 and float(np.dot(samples, samples)) > _QUIET_RMS**2 * len(samples)
