"""What keeps Whisper from telling more than was said: silence, loops and text on noise."""

import zlib
from collections.abc import Sequence

import numpy as np

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.ports import Samples

MAX_TOKENS = 224
"""Tokens of one decode: half of Whisper's positions."""

_BASE_TOKENS = 24
_TOKENS_PER_SECOND = 20
_SILENT_PEAK = 1e-3
_LOOP_TIMES = 4
_LOOP_TOKENS = 16
_MAX_COMPRESSION = 2.4
_NO_SPEECH = 0.7
_UNLIKELY = -1.0


def is_silent(samples: Samples) -> bool:
    """Whether nothing in the audio is louder than -60 dBFS."""
    return not len(samples) or float(np.abs(samples).max()) < _SILENT_PEAK


def token_limit(samples: Samples) -> int:
    """More tokens than anyone speaks in so much audio."""
    return min(MAX_TOKENS, _BASE_TOKENS + _TOKENS_PER_SECOND * len(samples) // SAMPLE_RATE)


def loop_start(tokens: Sequence[int]) -> int | None:
    """Where the tokens begin to say the same again, for at least four times and 16 tokens up to the end."""
    size = len(tokens)
    for period in range(1, size // _LOOP_TIMES + 1):
        repeated = 0
        while repeated < size - period and tokens[size - 1 - repeated] == tokens[size - 1 - repeated - period]:
            repeated += 1
        if repeated + period >= max(_LOOP_TIMES * period, _LOOP_TOKENS):
            return size - repeated
    return None


def is_degenerate(tokens: Sequence[int], text: str, limit: int) -> bool:
    """Whether a decode went astray: it did not end, it loops, or its text says little in many words."""
    if len(tokens) >= limit or loop_start(tokens) is not None:
        return True
    spoken = text.encode()
    return len(spoken) / len(zlib.compress(spoken)) > _MAX_COMPRESSION if spoken else False


def is_unlikely(mean_log_probability: float) -> bool:
    """Whether the model itself hardly believes its text."""
    return mean_log_probability < _UNLIKELY


def is_no_speech(probability: float) -> bool:
    """Whether nobody spoke, for a text that is unlikely or astray.

    Measured: noises of all colours, tones and clicks have a probability above 0.82, and texts below -1.2 or astray;
    the shortest spoken words are below 0.68.
    """
    return probability > _NO_SPEECH
