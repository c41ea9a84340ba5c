"""Tokens of a model joined to text across chunks: subword pieces, English spacing, Chinese without spaces."""

from collections.abc import Iterable
from dataclasses import dataclass

from streamscribe.core.script import is_unspaced


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
    """A punctuation mark that belongs behind the first `at` characters of a text.

    A model's last one ends the text for whoever reads it alone. `if_open` is then what the model itself has there, as
    in a text that goes on: another mark, or none (empty). None where it is the model's own.
    """

    at: int
    text: str
    if_open: str | None = None


@dataclass(frozen=True, slots=True)
class HypothesisWord:
    """A word with its first and last sample relative to the segment; times are monotone and inside it."""

    text: str
    start: int
    end: int
    confidence: float


class Detokenizer:
    """Joins one stream's tokens as they come; how they were cut into chunks changes nothing.

    A word is what subword pieces make up, or a character of a script without spaces. A space stands between two words
    that are spelled with letters, and nowhere else. An open word counts as what is known of it.
    """

    def __init__(self) -> None:
        self._text = ""
        self._words: list[HypothesisWord] = []
        self._pieces = 0
        """Of how many pieces the last word is, while it may go on; else 0."""

    def add(self, tokens: Iterable[Token]) -> None:
        """Adds the next tokens; costs as much as they are many, however old the stream is."""
        for token in tokens:
            piece = token.text.removesuffix(_GOES_ON)
            if not piece:
                continue
            if self._pieces and not is_unspaced(piece[0]):
                self._words[-1] = _grown(self._words[-1], piece, token, self._pieces)
            else:
                self._pieces = 0
                if self._words and _is_spelled(self._words[-1].text) and _is_spelled(piece):
                    self._text += " "
                self._words.append(HypothesisWord(piece, token.start, token.end, token.confidence))
            self._text += piece
            self._pieces = self._pieces + 1 if token.text.endswith(_GOES_ON) else 0

    @property
    def text(self) -> str:
        """All that was said."""
        return self._text

    @property
    def words(self) -> tuple[HypothesisWord, ...]:
        """The text's words; without spaces, they are the text."""
        return tuple(self._words)


def join(tokens: Iterable[Token]) -> tuple[str, tuple[HypothesisWord, ...]]:
    """The text of all tokens of a stream, and its words; a word's confidence is the mean of its pieces'."""
    whole = Detokenizer()
    whole.add(tokens)
    return whole.text, whole.words


_GOES_ON = "@@"


def _grown(word: HypothesisWord, piece: str, token: Token, pieces: int) -> HypothesisWord:
    confidence = (word.confidence * pieces + token.confidence) / (pieces + 1)
    return HypothesisWord(word.text + piece, word.start, token.end, confidence)


def _is_spelled(text: str) -> bool:
    """Whether a text has letters of a script that sets spaces between words; digits stand as Chinese does."""
    return any(char.isalpha() and not is_unspaced(char) for char in text)
