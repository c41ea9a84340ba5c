"""Spoken English numbers as people write them: $23, 5.2%, April 16, 2026, 3:30 p.m., 35 kilometers.

Numbers of ten or more are written in digits, one to nine where digits are usual (dates, times, sums, measures, labels).
Number words side by side that no rule explains as one number stay as they are: fifty fifty, seven eleven.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    year,
)
from streamscribe.text.timed import Edit

_WORD = re.compile(r"[ap]\.m\b|[A-Za-z]+(?:['’][A-Za-z]+)*")
_NUMBER_WORDS = frozenset(
    {*WORDS, *(word for word, value in ORDINALS.items() if value > 2), "half", "quarter", "double"}
)
_CANDIDATE = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBER_WORDS | {'first', 'second'}))})", re.IGNORECASE)
"""Without one of these a text has nothing to write in digits."""
_MONTHS = frozenset(listed("january february march april may june july august september october november december"))
_VERBS = frozenset({"may", "march"})
_DATE_CUES = frozenset(listed("on in of by until till since from to before after for last next this due"))
_TIME_CUES = frozenset(listed("at by around about until till before after from to past since between and"))
_QUARTERS = frozenset({15, 30, 45})
_NOON = {"am": "a.m.", "a.m": "a.m.", "pm": "p.m.", "p.m": "p.m."}
_COUNTED = frozenset(
    listed(
        "minutes minute people percent dollars dollar hours hour days day weeks years year times miles seconds pages "
        "point of"
    )
)
"""What is counted is neither a year nor a time of day."""
_UNITS = frozenset(
    listed(
        "kilometer kilometers kilometre kilometres meter meters metre metres centimeter centimeters centimetres "
        "millimeter millimeters millimetres mile miles kilogram kilograms kilo kilos gram grams milligrams ton tons "
        "tonnes liter liters litre litres milliliters gigabyte gigabytes megabyte megabytes terabyte terabytes "
        "kilobytes gigahertz megahertz hertz watt watts kilowatts volts amps degrees inch inches"
    )
)
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


@dataclass(frozen=True, slots=True)
class _Clause:
    """Words with nothing but a space or a hyphen between them, in lower case, and where each is in the text."""

    words: list[str]
    spans: list[tuple[int, int]]

    def word(self, at: int) -> str:
        """The word there, or nothing."""
        return self.words[at] if 0 <= at < len(self.words) else ""


Found = tuple[int, int, str | None]
"""From which word to which, and what to write there; None where it stays."""


def edits(text: str) -> list[Edit]:
    """What to write in digits."""
    if not _CANDIDATE.search(text):
        return []
    return [edit for clause in _clauses(text) for edit in _clause_edits(clause, text)]


def _clauses(text: str) -> Iterator[_Clause]:
    clause, end = _Clause([], []), -1
    for match in _WORD.finditer(text):
        if end >= 0 and text[end : match.start()] not in (" ", "-"):
            yield clause
            clause = _Clause([], [])
        clause.words.append(match[0].lower().replace("’", "'"))
        clause.spans.append(match.span())
        end = match.end()
    yield clause


def _clause_edits(clause: _Clause, text: str) -> Iterator[Edit]:
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


def _past_numbers(clause: _Clause, at: int) -> int:
    """Behind the number words that begin at `at`, at least one word on."""
    end = at + 1
    while clause.words[at] in WORDS and clause.word(end) in WORDS:
        end += 1
    return end


def _found(clause: _Clause, at: int) -> Found | None:
    for rule in _RULES:
        if found := rule(clause, at):
            return found
    return None


def _phrase(clause: _Clause, at: int) -> Found | None:
    if clause.words[at] not in _STARTS:
        return None
    for phrase, written in _PHRASES.items():
        end = at + len(phrase.split())
        if " ".join(clause.words[at:end]) == phrase and clause.word(end) not in WORDS:
            return at, end, written
    return None


def _date(clause: _Clause, at: int) -> Found | None:
    """April sixteenth twenty twenty six, june third, in may twenty twenty."""
    words, month = clause.words, clause.words[at]
    if month not in _MONTHS or at + 1 >= len(words):
        return None
    sure = month not in _VERBS or clause.word(at - 1) in _DATE_CUES
    name = month.capitalize()
    if sure and (told := _year(clause, at + 1)):
        return at, told[1], f"{name} {told[0]}"
    begin = at + 1 + (words[at + 1] == "the")
    read = ordinal(words, begin) if begin < len(words) else None
    if read is None and sure and begin == at + 1:
        read = below_hundred(words, begin)
        read = read if read and clause.word(read[1]) not in _COUNTED else None
    if read is None or not 1 <= read[0] <= 31 or not (sure or read[0] > 2):
        return None
    day, end = read
    if told := _year(clause, end):
        return at, told[1], f"{name} {day}, {told[0]}"
    return (at, end, f"{name} {day}") if clause.word(end) not in WORDS else None


def _year(clause: _Clause, at: int) -> tuple[int, int] | None:
    """A year behind a date."""
    if at >= len(clause.words):
        return None
    read = year(clause.words, at)
    if read is None and clause.words[at : at + 2] == ["two", "thousand"]:
        read = cardinal(clause.words, at)
    return read if read and read[0] < 2100 and clause.word(read[1]) not in WORDS | _COUNTED else None


def _day_of_month(clause: _Clause, at: int) -> Found | None:
    """The twenty first of May."""
    read = ordinal(clause.words, at)
    if not read or clause.word(read[1]) != "of" or clause.word(read[1] + 1) not in _MONTHS or not 1 <= read[0] <= 31:
        return None
    day, end = _with_suffix(read[0]), read[1] + 2
    name = clause.words[end - 1].capitalize()
    if told := _year(clause, end):
        return at, told[1], f"{day} of {name} {told[0]}"
    return at, end, f"{day} of {name}"


def _time(clause: _Clause, at: int) -> Found | None:
    """Three thirty p m, six pm, ten o'clock; without a cue only the quarters of an hour."""
    hour = SMALL.get(clause.words[at], 0)
    if not 1 <= hour <= 12:
        return None
    if clause.word(at + 1) == "o'clock":
        return at, at + 1, str(hour)
    minute, end = _minute(clause, at + 1)
    noon, noon_end = _noon(clause, end)
    if noon and not (clause.word(noon_end) == "i" and noon == "a.m."):  # which one am i
        return at, noon_end, f"{hour} {noon}" if minute is None else f"{hour}:{minute:02} {noon}"
    if minute is None or clause.word(end) in WORDS | _COUNTED | _UNITS | {"hundred"}:
        return None
    cued = clause.word(at - 1) in _TIME_CUES
    return (at, end, f"{hour}:{minute:02}") if cued or minute in _QUARTERS else None


def _minute(clause: _Clause, at: int) -> tuple[int | None, int]:
    if clause.word(at) in OH and 0 < SMALL.get(clause.word(at + 1), 0) < 10:
        return SMALL[clause.words[at + 1]], at + 2
    read = below_hundred(clause.words, at)
    return read if read and 10 <= read[0] < 60 else (None, at)


def _noon(clause: _Clause, at: int) -> tuple[str | None, int]:
    word = clause.word(at)
    if word in ("a", "p") and clause.word(at + 1) == "m":
        return f"{word}.m.", at + 2
    return _NOON.get(word), at + 1


def _past_or_to(clause: _Clause, at: int) -> Found | None:
    """Half past three, a quarter to four."""
    begin = at + (clause.words[at] == "a" and clause.word(at + 1) == "quarter")
    part, way, hour = clause.word(begin), clause.word(begin + 1), SMALL.get(clause.word(begin + 2), 0)
    if not 1 <= hour <= 12 or clause.word(begin + 3) in WORDS or part not in ("half", "quarter"):
        return None
    if way == "past":
        return at, begin + 3, f"{hour}:{30 if part == 'half' else 15}"
    return (at, begin + 3, f"{(hour - 2) % 12 + 1}:45") if (part, way) == ("quarter", "to") else None


def _whole_year(clause: _Clause, at: int) -> Found | None:
    """Nineteen eighty four, the nineteen eighties, and twenty twenty six where no one counts."""
    if clause.words[at] in ("nineteen", "eighteen") and clause.word(at + 1).endswith("ties"):
        tens = TENS.get(clause.word(at + 1).removesuffix("ies") + "y")
        return (at, at + 2, f"{SMALL[clause.words[at]]}{tens}s") if tens else None
    century = below_hundred(clause.words, at)
    if century and 11 <= century[0] <= 20 and clause.word(century[1]) == "hundreds":
        return at, century[1] + 1, f"{century[0]}00s"
    read = year(clause.words, at)
    if not read or clause.word(read[1]) in WORDS | _COUNTED or clause.word(at - 1) in WORDS:
        return None
    sure = read[0] >= 1900 or clause.word(at - 1) in _DATE_CUES | {"year", "the"}
    return (at, read[1], str(read[0])) if sure else None


def _digits(clause: _Clause, at: int) -> Found | None:
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


def _ordinal(clause: _Clause, at: int) -> Found | None:
    """Twenty first, eleventh; first to ninth stay, and so do parts (a tenth, two twentieths)."""
    read = ordinal(clause.words, at)
    if not read or read[0] < 10 or clause.word(at - 1) in WORDS | {"a", "an", "every"}:
        return None
    return at, read[1], _with_suffix(read[0])


def _with_suffix(value: int) -> str:
    teen = 10 < value % 100 < 14
    return f"{value}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(value % 10, 'th')}"


def _amount(clause: _Clause, at: int) -> Found | None:
    """A number, with what is counted where that changes how it is written."""
    read = cardinal(clause.words, at)
    if read is None or clause.word(at - 1) in WORDS:
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
    if value < 10 and written.isdigit() and other < 10 and counted not in _UNITS | {"percent"}:
        usual = (following in _UNITS and value != 1) or clause.word(at - 1) in _LABELS or _ends_range(clause, at)
        return (at, end, written) if usual else None
    return (at, end, written) if clause.words[at] != "a" or end > at + 2 else None


def _shares_scale(clause: _Clause, at: int, end: int) -> bool:
    """One or two hundred: the first number is hundreds, too."""
    if clause.word(at - 1) not in ("to", "or") or SMALL.get(clause.word(at - 2), 10) > 9:
        return False
    return clause.word(at - 3) not in TENS and any(word == "hundred" or word in SCALES for word in clause.words[at:end])


def _up_to(clause: _Clause, at: int, end: int) -> tuple[int, str]:
    """The other end of a range that begins here (one to ten, between five and ten), and what is counted; or zero."""
    joined = clause.word(end) == "to" or (clause.word(end) == "and" and clause.word(at - 1) == "between")
    other = cardinal(clause.words, end + 1) if joined and end + 1 < len(clause.words) else None
    if other is None or _shares_scale(clause, end + 1, other[1]):
        return 0, ""
    return other[0], clause.word(other[1])


def _ends_range(clause: _Clause, at: int) -> bool:
    """Twenty one to seven: digits on both sides."""
    before = clause.word(at - 2)
    large = SMALL.get(before, 0) > 9 or before in TENS or clause.word(at - 3) in TENS
    return clause.word(at - 1) == "to" and large


def _decimal(clause: _Clause, value: int, end: int) -> tuple[str, int]:
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


def _money(clause: _Clause, at: int, end: int, sign: str, amount: str) -> Found:
    """Twenty dollars, three dollars and fifty cents."""
    end += 1
    begin = end + (clause.word(end) == "and")
    cents = below_hundred(clause.words, begin)
    if cents and clause.word(cents[1]) in ("cent", "cents") and amount[-1].isdigit():
        return at, cents[1] + 1, f"{sign}{amount}.{cents[0]:02}"
    return at, end, sign + amount


_RULES: tuple[Callable[[_Clause, int], Found | None], ...] = (
    _phrase,
    _date,
    _day_of_month,
    _past_or_to,
    _time,
    _whole_year,
    _digits,
    _ordinal,
    _amount,
)
