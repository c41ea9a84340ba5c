"""Word times in FunASR's two forms: one pair per character or word, and per clause.

FunASR's page indexes `timestamp` by its own count of the text and loses the whole text where there are fewer pairs, so
`timestamp` is left out unless the counts agree.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from streamscribe.core.results import Word
from streamscribe.core.script import is_unspaced

_PAGE_SEPARATORS = re.compile(r"[。？，、?. ,]")
_PAGE_WORD = re.compile(r"[a-zA-Z]+\Z")
_CLAUSE_MARKS = frozenset("，。？！、；：,.?!;:…")


class StampSent(msgspec.Struct, frozen=True):
    """One clause: its words with spaces between, the mark behind it, and their times in ms of the session."""

    text_seg: str
    punc: str
    start: int
    end: int
    ts_list: list[list[int]]


@dataclass(frozen=True, slots=True)
class Stamps:
    """`timestamp` is JSON inside a string, as the clients parse it; None where the page would miscount."""

    timestamp: str | None = None
    sentences: list[StampSent] | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    times: list[int]


def stamps(text: str, words: Iterable[Word]) -> Stamps:
    """The stamps of a text; none at all where the words are not the text's own, in its order."""
    tokens = _align(text, words)
    if not tokens:
        return Stamps()
    timestamp = None
    if len(tokens) == page_count(text):
        timestamp = msgspec.json.encode([token.times for token in tokens]).decode()
    return Stamps(timestamp, _clauses(text, tokens))


def page_count(text: str) -> int:
    """Pairs that FunASR's page takes from `timestamp` for a text: one per English word, else one per UTF-16 unit."""
    count = 0
    for word in _PAGE_SEPARATORS.split(text):
        count += 1 if _PAGE_WORD.match(word) else len(word.encode("utf-16-le")) // 2
    return count


def _align(text: str, words: Iterable[Word]) -> list[_Token]:
    """The words at their places in the text; only marks and spaces may lie between them."""
    tokens: list[_Token] = []
    at = 0
    for piece, begin_ms, end_ms in _pieces(words):
        start = text.find(piece, at)
        if start < 0 or any(map(str.isalnum, text[at:start])):
            return []
        at = start + len(piece)
        tokens.append(_Token(piece, start, at, [begin_ms, end_ms]))
    return [] if any(map(str.isalnum, text[at:])) else tokens


def _pieces(words: Iterable[Word]) -> Iterable[tuple[str, int, int]]:
    """Words without the marks around them; one of several characters of an unspaced script is shared out evenly."""
    for word in words:
        bare = _bare(word.text)
        if len(bare) > 1 and all(map(is_unspaced, bare)):
            span = word.end_ms - word.start_ms
            edges = [word.start_ms + span * index // len(bare) for index in range(len(bare) + 1)]
            yield from zip(bare, edges, edges[1:], strict=False)
        elif bare:
            yield bare, word.start_ms, word.end_ms


def _bare(text: str) -> str:
    letters = [index for index, char in enumerate(text) if char.isalnum()]
    return text[letters[0] : letters[-1] + 1] if letters else ""


def _clauses(text: str, tokens: list[_Token]) -> list[StampSent]:
    clauses: list[StampSent] = []
    clause: list[_Token] = []
    for token, following in zip(tokens, [*(token.start for token in tokens[1:]), len(text)], strict=True):
        clause.append(token)
        mark = text[token.end : following].strip()
        if following == len(text) or _CLAUSE_MARKS.intersection(mark):
            times = [token.times for token in clause]
            words = " ".join(token.text for token in clause)
            clauses.append(StampSent(words, mark, times[0][0], times[-1][1], times))
            clause = []
    return clauses
