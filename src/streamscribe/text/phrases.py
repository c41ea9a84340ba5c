"""Finds listed phrases in a text, whatever their case and width, and whether or not Chinese is written with spaces."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ahocorasick_rs import AhoCorasick, MatchKind

from streamscribe.core.script import is_unspaced

_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_GAP = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Found:
    """Characters `start` to `end` (not included) of a text are phrase number `phrase` of a list."""

    phrase: int
    start: int
    end: int


class PhraseFinder:
    """All places of all phrases of a list, by Aho-Corasick: one pass over the text however long the list is.

    Equal are: capitals and small letters, full- and half-width ones, and texts that differ in the spaces beside
    Chinese characters. A phrase that begins or ends in a letter or digit of a spaced script does so at a word's edge.
    With `longest` it finds no phrase that overlaps another: the leftmost ones, and of those the longest.
    """

    def __init__(self, phrases: Sequence[str], *, longest: bool = False) -> None:
        numbers: dict[str, list[int]] = {}
        for number, phrase in enumerate(phrases):
            folded = fold(phrase.strip())[0]
            if folded:
                numbers.setdefault(folded, []).append(number)
        self._numbers = list(numbers.values())
        self._overlapping = not longest
        kind = MatchKind.LeftmostLongest if longest else MatchKind.Standard
        self._automaton = AhoCorasick(list(numbers), kind, store_patterns=False) if numbers else None

    def find(self, text: str) -> list[Found]:
        """What is there, in the order of its end."""
        if self._automaton is None or not text:
            return []
        folded, places = fold(text)
        found: list[Found] = []
        for pattern, start, end in self._automaton.find_matches_as_indexes(folded, overlapping=self._overlapping):
            if is_edge(folded, start) and is_edge(folded, end):
                span = places[start], places[end - 1] + 1
                found += [Found(number, *span) for number in self._numbers[pattern]]
        return found


def leftmost_longest(found: Iterable[Found]) -> list[Found]:
    """Those that do not overlap: of two, the one that begins first, or else the longer one."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def fold(text: str) -> tuple[str, Sequence[int]]:
    """The text in small half-width letters, with single spaces between words of spaced scripts and no others.

    The numbers say where each of its characters stands in the text.
    """
    narrow = text.translate(_NARROW)
    folded = narrow.lower()
    if len(folded) != len(narrow):
        folded = "".join(low if len(low := char.lower()) == 1 else char for char in narrow)
    gaps = list(_GAP.finditer(folded))
    if not gaps:
        return folded, range(len(folded))
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for gap in gaps:
        parts.append(folded[at : gap.start()])
        places.extend(range(at, gap.start()))
        at = gap.end()
        if _in_word(folded[gap.start() - 1 : gap.start()]) and _in_word(folded[at : at + 1]):
            parts.append(" ")
            places.append(gap.start())
    parts.append(folded[at:])
    places.extend(range(at, len(folded)))
    return "".join(parts), places


def is_edge(text: str, at: int) -> bool:
    """Whether no word of a spaced script goes on across `at`."""
    return not (_in_word(text[at - 1 : at] if at else "") and _in_word(text[at : at + 1]))


def _in_word(char: str) -> bool:
    return char.isalnum() and not is_unspaced(char)
