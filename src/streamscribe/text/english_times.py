"""English dates, years and times of day as people write them: April 16, 2026, the 21st of May, 3:30 p.m., the 1980s.

Each rule reads from a word on and says which words it writes, or None.
"""

from collections.abc import Callable

from streamscribe.text.english_clause import Clause, Found
from streamscribe.text.english_numbers import OH, SMALL, TENS, WORDS, below_hundred, cardinal, listed, ordinal, year

_MONTHS = frozenset(listed("january february march april may june july august september october november december"))
_VERBS = frozenset({"may", "march"})
_DATE_CUES = frozenset(listed("on in of by until till since from to before after for last next this due"))
_TIME_CUES = frozenset(listed("at by around about until till before after from to past since between and"))
_QUARTERS = frozenset({15, 30, 45})
_NOON = {"am": "a.m.", "a.m": "a.m.", "pm": "p.m.", "p.m": "p.m."}
COUNTED = frozenset(
    listed(
        "minutes minute people percent dollars dollar hours hour days day weeks years year times miles seconds pages "
        "point of"
    )
)
"""What is counted is neither a year nor a time of day."""
UNITS = frozenset(
    listed(
        "kilometer kilometers kilometre kilometres meter meters metre metres centimeter centimeters centimetres "
        "millimeter millimeters millimetres mile miles kilogram kilograms kilo kilos gram grams milligrams ton tons "
        "tonnes liter liters litre litres milliliters gigabyte gigabytes megabyte megabytes terabyte terabytes "
        "kilobytes gigahertz megahertz hertz watt watts kilowatts volts amps degrees inch inches"
    )
)


def _date(clause: Clause, at: int) -> Found | None:
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
        read = read if read and clause.word(read[1]) not in COUNTED else None
    if read is None or not 1 <= read[0] <= 31 or not (sure or read[0] > 2):
        return None
    day, end = read
    if told := _year(clause, end):
        return at, told[1], f"{name} {day}, {told[0]}"
    return (at, end, f"{name} {day}") if clause.word(end) not in WORDS else None


def _year(clause: Clause, at: int) -> tuple[int, int] | None:
    """A year behind a date."""
    if at >= len(clause.words):
        return None
    read = year(clause.words, at)
    if read is None and clause.words[at : at + 2] == ["two", "thousand"]:
        read = cardinal(clause.words, at)
    return read if read and read[0] < 2100 and clause.word(read[1]) not in WORDS | COUNTED else None


def _day_of_month(clause: Clause, at: int) -> Found | None:
    """The twenty first of May."""
    read = ordinal(clause.words, at)
    if not read or clause.word(read[1]) != "of" or clause.word(read[1] + 1) not in _MONTHS or not 1 <= read[0] <= 31:
        return None
    day, end = with_suffix(read[0]), read[1] + 2
    name = clause.words[end - 1].capitalize()
    if told := _year(clause, end):
        return at, told[1], f"{day} of {name} {told[0]}"
    return at, end, f"{day} of {name}"


def _time(clause: Clause, at: int) -> Found | None:
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
    if minute is None or clause.word(end) in WORDS | COUNTED | UNITS | {"hundred"}:
        return None
    cued = clause.word(at - 1) in _TIME_CUES
    return (at, end, f"{hour}:{minute:02}") if cued or minute in _QUARTERS else None


def _minute(clause: Clause, at: int) -> tuple[int | None, int]:
    if clause.word(at) in OH and 0 < SMALL.get(clause.word(at + 1), 0) < 10:
        return SMALL[clause.words[at + 1]], at + 2
    read = below_hundred(clause.words, at)
    return read if read and 10 <= read[0] < 60 else (None, at)


def _noon(clause: Clause, at: int) -> tuple[str | None, int]:
    word = clause.word(at)
    if word in ("a", "p") and clause.word(at + 1) == "m":
        return f"{word}.m.", at + 2
    return _NOON.get(word), at + 1


def _past_or_to(clause: Clause, at: int) -> Found | None:
    """Half past three, a quarter to four."""
    begin = at + (clause.words[at] == "a" and clause.word(at + 1) == "quarter")
    part, way, hour = clause.word(begin), clause.word(begin + 1), SMALL.get(clause.word(begin + 2), 0)
    if not 1 <= hour <= 12 or clause.word(begin + 3) in WORDS or part not in ("half", "quarter"):
        return None
    if way == "past":
        return at, begin + 3, f"{hour}:{30 if part == 'half' else 15}"
    return (at, begin + 3, f"{(hour - 2) % 12 + 1}:45") if (part, way) == ("quarter", "to") else None


def _whole_year(clause: Clause, at: int) -> Found | None:
    """Nineteen eighty four, the nineteen eighties, and twenty twenty six where no one counts."""
    if clause.words[at] in ("nineteen", "eighteen") and clause.word(at + 1).endswith("ties"):
        tens = TENS.get(clause.word(at + 1).removesuffix("ies") + "y")
        return (at, at + 2, f"{SMALL[clause.words[at]]}{tens}s") if tens else None
    century = below_hundred(clause.words, at)
    if century and 11 <= century[0] <= 20 and clause.word(century[1]) == "hundreds":
        return at, century[1] + 1, f"{century[0]}00s"
    read = year(clause.words, at)
    if not read or clause.word(read[1]) in WORDS | COUNTED or clause.word(at - 1) in WORDS:
        return None
    sure = read[0] >= 1900 or clause.word(at - 1) in _DATE_CUES | {"year", "the"}
    return (at, read[1], str(read[0])) if sure else None


def with_suffix(value: int) -> str:
    """21st, 22nd, 23rd, 11th."""
    teen = 10 < value % 100 < 14
    return f"{value}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(value % 10, 'th')}"


RULES: tuple[Callable[[Clause, int], Found | None], ...] = (_date, _day_of_month, _past_or_to, _time, _whole_year)
