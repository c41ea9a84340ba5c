"""What the tests of text share."""

from itertools import pairwise

from streamscribe.bench.text_rules import LANGUAGES, table
from streamscribe.core.results import Word
from streamscribe.text.pipeline import TextPipeline

TEXT = TextPipeline()


def cases() -> list[tuple[str, str, str]]:
    """Language, spoken and written form of each line of the tables."""
    return [(language, spoken, written) for language in LANGUAGES for spoken, written in table(language)]


def cut(text: str, at: set[int]) -> tuple[Word, ...]:
    """The text in words that begin at 0 and at `at`, 100 ms each."""
    cuts = [0, *sorted(one for one in at if 0 < one < len(text)), len(text)]
    pieces = [text[start:end].strip() for start, end in pairwise(cuts)]
    said = [piece for piece in pieces if piece]
    return tuple(Word(piece, 100 * i, 100 * i + 100, 1 / (i + 1)) for i, piece in enumerate(said))


def bare(text: str) -> str:
    """Without white space."""
    return "".join(text.split())


def told(words: tuple[Word, ...]) -> str:
    """The words' text without white space."""
    return bare("".join(word.text for word in words))
