"""What keeps Whisper from telling more than was said: decodes that go astray, and text on noise."""

import zlib
from collections.abc import Sequence

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.guards import loop_start

MAX_TOKENS = 224
"""Tokens of one decode: half of Whisper's positions."""

_BASE_TOKENS = 24
_TOKENS_PER_SECOND = 20
_STAMMER_TOKENS = 8
_MAX_COMPRESSION = 2.4
_NO_SPEECH = 0.67
_UNLIKELY = -1.0
_ECHO_TOKENS = 8
"""Nobody says so many tokens again by chance; digits that are read one by one repeat shorter runs."""


def token_limit(samples: int) -> int:
    """More tokens than anyone speaks in so much audio."""
    return min(MAX_TOKENS, _BASE_TOKENS + _TOKENS_PER_SECOND * samples // SAMPLE_RATE)


def is_degenerate(tokens: Sequence[int], text: str, limit: int) -> bool:
    """Whether a decode went astray: it did not end, it loops, or its text says little in many words."""
    if len(tokens) >= limit or loop_start(tokens) is not None:
        return True
    spoken = text.encode()
    return len(spoken) / len(zlib.compress(spoken)) > _MAX_COMPRESSION if spoken else False


def stammers(tokens: Sequence[int]) -> bool:
    """Whether it says the same again and again to its end, as the model does that has heard nothing."""
    return loop_start(tokens, _STAMMER_TOKENS) is not None


def is_doubtful(tokens: Sequence[int], mean_log_probability: float, *, astray: bool) -> bool:
    """Whether a text may be the model's invention: it is astray, stammers, or the model itself hardly believes it."""
    return astray or mean_log_probability < _UNLIKELY or stammers(tokens)


def is_echo(tokens: Sequence[int], context: Sequence[int]) -> bool:
    """Whether a decode says a part of what it was told again, as the model may do instead of listening."""
    told = {tuple(context[at : at + _ECHO_TOKENS]) for at in range(len(context) - _ECHO_TOKENS + 1)}
    return any(tuple(tokens[at : at + _ECHO_TOKENS]) in told for at in range(len(tokens) - _ECHO_TOKENS + 1))


def is_no_speech(probabilities: Sequence[float]) -> bool:
    """Whether nobody spoke, by the model's probability of that in each look at the segment.

    It counts only for doubtful texts: short words have high ones too (to 0.9 where a short window was encoded, to 0.6
    in a full one), noises of all colours, tones and clicks lie above 0.68 in the mean of both.
    """
    return sum(probabilities) > _NO_SPEECH * len(probabilities)
