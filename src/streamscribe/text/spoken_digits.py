"""Where a text tells digits in words: what is left of them for those who must not see any."""

import re
from collections.abc import Iterator

import rjieba

DIGIT_CHARS = "零〇一二两三四五六七八九十幺壹贰叁肆伍陆柒捌玖拾"
DIGIT_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)

_CHINESE = re.compile(rf"[{DIGIT_CHARS}百千万亿](?:[\s,.、，。·\-]*[{DIGIT_CHARS}百千万亿])*")
_DIGIT = re.compile(f"[{DIGIT_CHARS}]")
_IDIOMS = frozenset({"万一", "一一", "十万", "百万", "千万"})
_ENGLISH_WORD = f"(?:{DIGIT_WORDS.replace(' ', '|')}|hundred|thousand|million|billion)"
_ENGLISH = re.compile(
    rf"\b{_ENGLISH_WORD}(?:[\s,.\-]+(?:and\s+|double\s+|triple\s+)?(?:{_ENGLISH_WORD}|oh?)\b)*", re.IGNORECASE
)
_LONE_WORDS = frozenset({"one", "hundred", "thousand", "million", "billion"})


def spoken_digits(text: str) -> Iterator[tuple[int, int]]:
    """Stretches of the text that tell digits: numbers in words, also with marks between them, and lone digits.

    A lone Chinese digit inside a longer word of the dictionary (一个, 第一) is none, nor is a lone `one`.
    """
    words: list[tuple[int, int]] | None = None
    for run in _CHINESE.finditer(text):
        digits = len(_DIGIT.findall(run[0]))
        if digits == 1 and len(run[0]) == 1:
            words = _words(text) if words is None else words
            if any(start <= run.start() < end for start, end in words):
                continue
        if digits and run[0] not in _IDIOMS:
            yield run.span()
    for run in _ENGLISH.finditer(text):
        if run[0].lower() not in _LONE_WORDS:
            yield run.span()


def _words(text: str) -> list[tuple[int, int]]:
    """The places of dictionary words of several characters."""
    places: list[tuple[int, int]] = []
    at = 0
    words: list[str] = rjieba.cut(text, False)
    for word in words:
        if len(word) > 1:
            places.append((at, at + len(word)))
        at += len(word)
    return places
