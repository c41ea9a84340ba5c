"""Error rates with one stated normalisation: numbers as words (wetext's TN), lower case, no punctuation.

English and other spaced scripts count words, Chinese and Japanese count characters.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import jiwer

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_DIGITS = re.compile(r"\d{5,}")
_NOT_WORD = re.compile(r"[^\w']+|_")

_CHINESE_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")


class _Normalizer(Protocol):
    def normalize(self, text: str) -> str: ...


@cache
def _to_words(language: str) -> _Normalizer:
    from wetext import Normalizer

    normalizer: _Normalizer = Normalizer(lang=language, operator="tn")
    return normalizer


def counts_characters(text: str) -> bool:
    """Whether the text is of a script without spaces."""
    return bool(_HAN.search(text))


def normalise(text: str, *, characters: bool) -> str:
    """The text as it is compared: words apart by one space; characters too, where these are counted."""
    text = text.lower().replace("’", "'")
    if characters:  # long runs of digits are read one by one, never as a sum of millions
        text = _DIGITS.sub(lambda run: run.group().translate(_CHINESE_DIGITS), text)
    spoken = _to_words("zh" if characters else "en").normalize(text).lower()
    words = " ".join(_NOT_WORD.sub(" ", spoken).split())
    return " ".join(words.replace(" ", "")) if characters else words


def error_rate(said: str, heard: str) -> float:
    """Word or character error rate of one text; 0 is right, above 1 possible."""
    return corpus_error_rate([said], [heard])


def corpus_error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """All errors over all words (or characters) of what was said; scripts are not mixed."""
    characters = counts_characters(said[0])
    return float(
        jiwer.wer(
            [normalise(text, characters=characters) for text in said],
            [normalise(text, characters=characters) for text in heard],
        )
    )
