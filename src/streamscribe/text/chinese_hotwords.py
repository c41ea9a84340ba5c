"""Finds Chinese hot words that were written with other characters of the same or nearly the same sound.

An Aho-Corasick automaton over sounds that stand for all that is confused (text/sound.py) finds the places; then
evidence is weighed: how exactly each syllable agrees, against what says that the text is right as it is, foremost the
words that a dictionary (jieba's) sees there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count, islice, product
from math import log2

import rjieba
from ahocorasick_rs import AhoCorasick

from streamscribe.core.options import Hotword
from streamscribe.text.candidates import Candidate
from streamscribe.text.common_words import CHARS
from streamscribe.text.sound import is_han, readings
from streamscribe.text.timed import Edit

SAME, SOUND, NEAR = 3, 2, 1
"""Evidence of a syllable: the character or its sound with its tone; its sound; a sound that is confused with it."""
NEEDED = 5.0
"""Evidence that a hot word of weight 1 needs; twice the weight needs one less."""
LEAST, MOST = 4.0, 8.0
DOUBT = 2.0
"""What more is needed for each end of a place that cuts a word, and where all words in it are known."""
SURE_WEIGHT = 50.0
"""From this weight on a hot word takes the place of a single known word that sounds exactly so."""
MAX_READINGS = 8
"""Readings of a phrase whose characters have several."""
MIN_SYLLABLES = 2
WORK = 8
"""Syllables that are weighed for each character of a text, at most: lists made to be slow are not read to their end."""
MAX_AT_ONE_PLACE = 4
"""Phrases of those that begin at one place that are weighed, the longest."""

_BREAK = "\0"
_codes: dict[str, str] = {}
_fresh = count(0xE000)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A hot word: its characters without spaces, where each stands in the phrase, and the evidence it needs."""

    chars: str
    needed: float
    sure: bool


class ChineseHotwords:
    """The Chinese hot words of a list; those with foreign letters in them too."""

    def __init__(self, hotwords: Sequence[Hotword]) -> None:
        patterns: dict[str, list[_Entry]] = {}
        for hotword in hotwords:
            chars = "".join(hotword.phrase.split())
            if len(chars) < MIN_SYLLABLES or not any(map(is_han, chars)) or _BREAK in map(_code, chars):
                continue
            needed = min(max(NEEDED - log2(hotword.weight), LEAST), MOST)
            entry = _Entry(chars, needed, hotword.weight >= SURE_WEIGHT)
            for pattern in _patterns(chars):
                patterns.setdefault(pattern, []).append(entry)
        self._entries = list(patterns.values())
        self._automaton = AhoCorasick(list(patterns), store_patterns=False) if patterns else None
        self.weighed = 0
        """Syllables that were weighed so far."""

    def candidates(self, text: str, right: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
        """Places that sound like a hot word, outside those that are right already."""
        if self._automaton is None:
            return
        *readings_of_text, places = _encode(text, right)
        matches = {match for codes in readings_of_text for match in self._matches(codes)}
        if not matches:
            return
        known = _KnownWords(text)
        budget = WORK * len(places)
        for pattern, first, last in sorted(matches, key=lambda match: (match[1] - match[2], match)):
            for entry in self._entries[pattern]:
                budget -= last - first
                if budget < 0:
                    return
                self.weighed += last - first
                candidate = _weigh(entry, text, places[first:last], known)
                if candidate is not None:
                    yield candidate

    def _matches(self, codes: str) -> Iterator[tuple[int, int, int]]:
        """Patterns and their places; of those that begin at one place, the longest."""
        if self._automaton is None:
            return
        by_start: dict[int, list[tuple[int, int, int]]] = {}
        for match in self._automaton.find_matches_as_indexes(codes, overlapping=True):
            by_start.setdefault(match[1], []).append(match)  # in the order of their ends
        for found in by_start.values():
            yield from found[-MAX_AT_ONE_PLACE:]


class _KnownWords:
    """The words of a dictionary that a text is made of."""

    def __init__(self, text: str) -> None:
        words: list[str] = rjieba.cut(text, False)
        self._text = text
        self._starts = set(accumulate(map(len, words), initial=0))

    def cuts(self, start: int, end: int) -> int:
        """How many ends of a place lie inside a word."""
        return (start not in self._starts) + (end not in self._starts)

    def is_word(self, start: int, end: int) -> bool:
        """Whether a place is one word."""
        return self.cuts(start, end) == 0 and self._starts.isdisjoint(range(start + 1, end))

    def are_usual(self, start: int, end: int) -> bool:
        """Whether all words in a place are known: of several characters, or single ones that are usual."""
        at = start
        while at < end:
            next_at = at + 1
            while next_at < end and next_at not in self._starts:
                next_at += 1
            if next_at - at == 1 and self._text[at] not in CHARS:
                return False
            at = next_at
        return True


def _weigh(entry: _Entry, text: str, places: Sequence[int], known: _KnownWords) -> Candidate | None:
    start, end = places[0], places[-1] + 1
    evidence = [_evidence(text[at], char) for at, char in zip(places, entry.chars, strict=True)]
    if known.is_word(start, end) and not (entry.sure and min(evidence) == SAME):
        return None
    doubts = known.cuts(start, end) + known.are_usual(start, end)
    gain = sum(evidence) - entry.needed - DOUBT * doubts
    if gain < 0 or not _has_edges(text, start, end):
        return None
    pairs = zip(places, entry.chars, strict=True)
    return Candidate(start, end, gain, tuple(Edit(at, at + 1, new) for at, new in pairs if text[at] != new))


def _evidence(heard: str, char: str) -> int:
    if heard.lower() == char.lower():
        return SAME
    ways = {(one.pinyin, one.tone) for one in readings(heard)}
    wanted = {(one.pinyin, one.tone) for one in readings(char)}
    if ways & wanted:
        return SAME
    return NEAR if {sound for sound, _ in ways}.isdisjoint(sound for sound, _ in wanted) else SOUND


def _has_edges(text: str, start: int, end: int) -> bool:
    """Whether a place that begins or ends in a foreign letter does so at a word's edge."""
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return not ((_is_letter(before) and _is_letter(text[start])) or (_is_letter(after) and _is_letter(text[end - 1])))


def _is_letter(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _patterns(chars: str) -> list[str]:
    """The phrase in codes, for each way to read it: by the usual readings first, and not too many."""
    ways = [dict.fromkeys(_sound_code(reading.sound) for reading in readings(char)) or [_code(char)] for char in chars]
    return ["".join(way) for way in islice(product(*ways), MAX_READINGS)]


def _encode(text: str, right: Sequence[tuple[int, int]]) -> tuple[str, str, list[int]]:
    """The text in codes without white space, by its first readings and by its second ones, and where each code stands.

    What is right already matches nothing.
    """
    codes: list[str] = []
    others: list[str] = []
    places: list[int] = []
    hidden = bytearray(len(text))
    for start, end in right:
        hidden[start:end] = b"\1" * (end - start)
    for at, char in enumerate(text):
        if not char.isspace():
            codes.append(_BREAK if hidden[at] else _code(char))
            others.append(_BREAK if hidden[at] else _code(char, 1))
            places.append(at)
    return "".join(codes), "".join(others), places


@lru_cache(maxsize=2**16)
def _code(char: str, reading: int = 0) -> str:
    """One character that stands for how a character sounds: a letter for itself, and nothing for marks."""
    if _is_letter(char):
        return char.lower()
    ways = readings(char)
    return _sound_code(ways[min(reading, len(ways) - 1)].sound) if ways else _BREAK


def _sound_code(sound: str) -> str:
    code = _codes.get(sound)
    return code if code is not None else _codes.setdefault(sound, chr(next(_fresh)))
