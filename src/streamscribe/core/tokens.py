"""Tokens of a model joined to text across chunks: subword pieces, English spacing, Chinese without spaces."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text as a model's vocabulary writes it, from sample `start` to `end`; confidence 0 to 1.

    A piece that ends with `@@` goes on in the next token.
    """

    text: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A punctuation mark that belongs behind the first `at` characters of a text."""

    at: int
    text: str
