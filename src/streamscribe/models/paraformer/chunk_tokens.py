"""When the tokens that come out of a streaming Paraformer's chunks were said."""

from collections.abc import Iterable

from streamscribe.core.tokens import Token
from streamscribe.models.paraformer.chunk_grid import ROW_SAMPLES
from streamscribe.models.ports import FRAME_SAMPLES

_ROW_CENTRE_SAMPLES = (FRAME_SAMPLES - ROW_SAMPLES) // 2
"""A row hears around the middle of its fourth frame; so far behind its beginning on the 60 ms grid does it begin."""
_HALF_TOKEN_SAMPLES = 2 * ROW_SAMPLES
"""A token is told to last from 120 ms before the middle of its weight to 120 ms after it."""


def middle_rows(middles: Iterable[float], first_row: int, carried: float) -> list[float]:
    """CIF's middles, in columns behind a carried one, as rows of the stream, where column 1 is `first_row`.

    A middle in the carried column was in an earlier chunk: it is the row that was known of it then.
    """
    return [first_row - 1 + middle if middle >= 1 else carried for middle in middles]


def timed_tokens(heard: Iterable[tuple[str, float, float]], spoken_until: int, end: int) -> tuple[Token, ...]:
    """Tokens of texts, confidences and middle rows.

    Their times begin at `spoken_until`, follow each other without overlap and lie before sample `end`.
    """
    tokens = []
    until = min(spoken_until, end)
    for text, confidence, row in heard:
        middle = round(row * ROW_SAMPLES) + _ROW_CENTRE_SAMPLES
        start = min(max(until, middle - _HALF_TOKEN_SAMPLES), end)
        until = min(max(start, middle + _HALF_TOKEN_SAMPLES), end)
        tokens.append(Token(text, start, until, confidence))
    return tuple(tokens)
