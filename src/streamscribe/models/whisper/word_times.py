"""Words of a decode with their times, from the decoder's attention."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamscribe.core.script import is_unspaced
from streamscribe.models.ports import HypothesisWord
from streamscribe.models.whisper.vocabulary import Piece

POSITION_SAMPLES = 320
"""Samples of one encoder position."""


@dataclass(slots=True)
class _Word:
    text: str
    start: float
    end: float
    confidences: list[float]


def words(
    pieces: Sequence[Piece], token_positions: Sequence[int], confidences: Sequence[float], samples: int
) -> tuple[HypothesisWord, ...]:
    """Words (characters, in scripts without spaces) that make up the pieces' text but for white space.

    `token_positions` tells the encoder position where each token begins, and one more for the end; `confidences` the
    probability of each token. Times are monotone and from 0 to `samples`.
    """
    found: list[_Word] = []
    glue = False
    for char, start, end, confidence in _characters(pieces, token_positions, confidences):
        if char.isspace():
            glue = False
            continue
        if found and _continues(found[-1].text, char, glue):
            found[-1].text += char
            found[-1].end = end
            found[-1].confidences.append(confidence)
        else:
            found.append(_Word(char, start, end, [confidence]))
        glue = True
    return tuple(_clamped(found, samples))


def _characters(
    pieces: Sequence[Piece], token_positions: Sequence[int], confidences: Sequence[float]
) -> Iterator[tuple[str, float, float, float]]:
    """Each character with its times, in positions, and its probability; a piece's time is shared out evenly."""
    token = 0
    for piece in pieces:
        start, end = token_positions[token], token_positions[token + piece.tokens]
        confidence = min(confidences[token : token + piece.tokens])
        token += piece.tokens
        spoken = max(1, sum(not char.isspace() for char in piece.text))
        step = (end - start) / spoken
        at = 0
        for char in piece.text:
            now = at + (not char.isspace())
            yield char, start + at * step, start + now * step, confidence
            at = now


def _continues(word: str, char: str, glued: bool) -> bool:
    """Whether the character belongs to the word before it: marks do, letters do where the script has spaces."""
    if unicodedata.category(char).startswith("M"):
        return True
    if not char.isalnum():
        return glued or is_unspaced(char)
    if not any(one.isalnum() for one in word):
        return glued
    return glued and not is_unspaced(char) and not is_unspaced(word[-1])


def _clamped(found: Sequence[_Word], samples: int) -> Iterator[HypothesisWord]:
    earliest = 0
    for word in found:
        start = min(max(round(word.start * POSITION_SAMPLES), earliest), samples)
        end = min(max(round(word.end * POSITION_SAMPLES), start), samples)
        earliest = end
        confidence = sum(word.confidences) / len(word.confidences)
        yield HypothesisWord(word.text, start, end, min(1.0, max(0.0, confidence)))
