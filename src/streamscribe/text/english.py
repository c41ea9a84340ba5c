"""Spoken English numbers as people write them: $23, 5.2%, April 16, 2026, 3:30 p.m., 35 kilometers.

Numbers of ten or more are written in digits, one to nine where digits are usual (dates, times, sums, measures, labels).
Number words side by side that no rule explains as one number stay as they are: fifty fifty, seven eleven.
"""

import re
from collections.abc import Callable, Iterator

from streamscribe.text.english_clause import Clause, Found, clauses
from streamscribe.text.english_numbers import (
    OH,
    ORDINALS,
    SCALES,
    SMALL,
    TENS,
    WORDS,
    below_hundred,
    cardinal,
    digits,
    listed,
    ordinal,
)
from streamscribe.text.english_times import RULES as TIME_RULES
from streamscribe.text.english_times import UNITS, with_suffix
from streamscribe.text.timed import Edit

_NUMBER_WORDS = frozenset(
    {*WORDS, *(word for word, value in ORDINALS.items() if value > 2), "half", "quarter", "double"}
)
_CANDIDATE = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBER_WORDS | {'first', 'second'}))})\b", re.IGNORECASE)
"""Without one of these a text has nothing to write in digits."""
_LABELS = frozenset(listed("page chapter version gate room flight apartment highway channel"))
_MONEY = {"dollar": "$", "dollars": "$", "euro": "€", "euros": "€"}
_PHONE = re.compile(r"\b(?:phone|call|dial|number|text|cell|mobile|fax|reach)\b")
_PHRASES = {
    "twenty four seven": "24/7",
    "twenty twenty vision": "20/20 vision",
    "eleventh hour": None,
    "one two three": None,
    "catch twenty two": None,
    "a hundred times": None,
    "forty winks": None,
}
"""Said as one; None where it stays."""
_STARTS = {phrase.split()[0] for phrase in _PHRASES}


def edits(text: str) -> list[Edit]:
    """What to write in digits."""
    if not _CANDIDATE.search(text):
        return []
    return [edit for clause in clauses(text) for edit in _clause_edits(clause, text)]


def _clause_edits(clause: Clause, text: str) -> Iterator[Edit]:
    at = 0
    while at < len(clause.words):
        begin, end, written = _found(clause, at) or (at, _past_numbers(clause, at), None)
        if written is not None:
            start, stop = clause.spans[begin][0], clause.spans[end - 1][1]
            if written.endswith(".") and text[stop : stop + 1] == ".":
                written = written[:-1]
            if written != text[start:stop]:
                yield Edit(start, stop, written)
        at = end


def _past_numbers(clause: Clause, at: int) -> int:
    """Behind the number words that begin at `at`, at least one word on."""
    end = at + 1
    while clause.words[at] in WORDS and clause.word(end) in WORDS:
        end += 1
    return end


def _found(clause: Clause, at: int) -> Found | None:
    for rule in _RULES:
        if found := rule(clause, at):
            return found
    return None


def _phrase(clause: Clause, at: int) -> Found | None:
    if clause.words[at] not in _STARTS:
        return None
    for phrase, written in _PHRASES.items():
        end = at + len(phrase.split())
        if " ".join(clause.words[at:end]) == phrase and clause.word(end) not in WORDS:
            return at, end, written
    return None


def _digits(clause: Clause, at: int) -> Found | None:
    """Three digits or more, read out; a telephone number in groups."""
    code, begin = "", at
    toll_free = clause.words[at:][1:3] if clause.words[at] == "one" else clause.words[at:][:2]
    if toll_free[1:] == ["hundred"] and toll_free[0] in SMALL:
        begin += 3 if clause.words[at] == "one" else 2
        code = ("1" if begin == at + 3 else "") + f"{SMALL[toll_free[0]]}00"
    told, end = digits(clause.words, begin)
    if (code and len(told) != 7) or len(told) < 3 or clause.word(end) in WORDS or clause.word(at - 1) in WORDS:
        return None
    whole = code + told
    if len(whole) >= 10 and (code or _PHONE.search(" ".join(clause.words[:at]))):
        groups = [whole[:-10], whole[-10:-7], whole[-7:-4], whole[-4:]]
        whole = "-".join(group for group in groups if group)
    return at, end, whole


def _ordinal(clause: Clause, at: int) -> Found | None:
    """Twenty first, eleventh; first to ninth stay, and so do parts (a tenth, two twentieths)."""
    read = ordinal(clause.words, at)
    if not read or read[0] < 10 or clause.word(at - 1) in WORDS | {"a", "an", "every"}:
        return None
    return at, read[1], with_suffix(read[0])


def _amount(clause: Clause, at: int) -> Found | None:
    """A number, with what is counted where that changes how it is written."""
    read = cardinal(clause.words, at)
    if read is None or _follows_number(clause, at):
        return None
    value, end = read
    if _shares_scale(clause, at, end):
        return at, end, None
    written, end = _decimal(clause, value, end)
    following = clause.word(end)
    if following in WORDS:
        return None
    if following == "percent" or (following == "per" and clause.word(end + 1) == "cent"):
        return at, end + (1 if following == "percent" else 2), written + "%"
    if following in _MONEY:
        return _money(clause, at, end, _MONEY[following], f"{value:,}" if written.isdigit() else written)
    if following == "degrees" and clause.word(at - 1) in ("minus", "negative"):
        return at - 1, end, "-" + written
    other, counted = _up_to(clause, at, end)
    if counted in _MONEY:
        return at, end, _MONEY[counted] + written
    if value < 10 and written.isdigit() and other < 10 and counted not in UNITS | {"percent"}:
        usual = (following in UNITS and value != 1) or clause.word(at - 1) in _LABELS or _ends_range(clause, at)
        return (at, end, written) if usual else None
    return (at, end, written) if clause.words[at] != "a" or end > at + 2 else None


def _follows_number(clause: Clause, at: int) -> bool:
    """Whether number words end right before: twenty twenty, five oh oh twenty."""
    before = at - 1
    while clause.word(before) in OH:
        before -= 1
    return clause.word(at - 1) in WORDS or (before < at - 1 and SMALL.get(clause.word(before), 10) < 10)


def _shares_scale(clause: Clause, at: int, end: int) -> bool:
    """One or two hundred: the first number is hundreds, too."""
    if clause.word(at - 1) not in ("to", "or") or SMALL.get(clause.word(at - 2), 10) > 9:
        return False
    return clause.word(at - 3) not in TENS and any(word == "hundred" or word in SCALES for word in clause.words[at:end])


def _up_to(clause: Clause, at: int, end: int) -> tuple[int, str]:
    """The other end of a range that begins here (one to ten, between five and ten), and what is counted; or zero."""
    joined = clause.word(end) == "to" or (clause.word(end) == "and" and clause.word(at - 1) == "between")
    other = cardinal(clause.words, end + 1) if joined and end + 1 < len(clause.words) else None
    if other is None or _shares_scale(clause, end + 1, other[1]):
        return 0, ""
    return other[0], clause.word(other[1])


def _ends_range(clause: Clause, at: int) -> bool:
    """Twenty one to seven: digits on both sides."""
    before = clause.word(at - 2)
    large = SMALL.get(before, 0) > 9 or before in TENS or clause.word(at - 3) in TENS
    return clause.word(at - 1) == "to" and large


def _decimal(clause: Clause, value: int, end: int) -> tuple[str, int]:
    """The number with its decimals (three point one four) and the million or billion that it counts."""
    written = f"{value:,}" if value >= 10_000 else str(value)
    if clause.word(end) == "point":
        oh = clause.word(end + 1) in OH
        told, told_to = ("0", end + 2) if oh else digits(clause.words, end + 1)
        if told:
            written, end = f"{written}.{told}", told_to
            scale = clause.word(end)
            if scale in ("thousand", "million", "billion", "trillion"):
                return f"{written} {scale}", end + 1
    for scale, size in (("trillion", 10**12), ("billion", 10**9), ("million", 10**6)):
        if value >= size and value % size == 0:
            return f"{value // size} {scale}", end
    return written, end


def _money(clause: Clause, at: int, end: int, sign: str, amount: str) -> Found:
    """Twenty dollars, three dollars and fifty cents."""
    end += 1
    begin = end + (clause.word(end) == "and")
    cents = below_hundred(clause.words, begin)
    if cents and clause.word(cents[1]) in ("cent", "cents") and amount[-1].isdigit():
        return at, cents[1] + 1, f"{sign}{amount}.{cents[0]:02}"
    return at, end, sign + amount


_RULES: tuple[Callable[[Clause, int], Found | None], ...] = (
    _phrase,
    *TIME_RULES,
    _digits,
    _ordinal,
    _amount,
)
