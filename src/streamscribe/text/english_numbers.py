"""English number words read as numbers: cardinals, ordinals, years, digits read out one by one.

Each reader takes a clause's words in lower case and where to begin, and gives the value and where it ends, or None.
"""

from collections.abc import Sequence


def listed(words: str) -> list[str]:
    """The words of a list that is written as text."""
    return words.split()


_SMALL = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = listed("twenty thirty forty fifty sixty seventy eighty ninety")
SMALL = {word: value for value, word in enumerate(_SMALL)}
TENS = {word: 10 * value for value, word in enumerate(_TENS, 2)}
SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "trillion": 1_000_000_000_000}
ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12,
    **{word + "th": value for word, value in SMALL.items() if value not in (0, 1, 2, 3, 5, 8, 9, 12)},
    **{word[:-1] + "ieth": value for word, value in TENS.items()},
}  # fmt: skip
OH = frozenset({"oh", "o"})
_TIMES = {"double": 2, "triple": 3}

WORDS = frozenset({*SMALL, *TENS, *SCALES, "hundred", "point"})
"""What a cardinal is made of, `and` and `a` aside."""

Words = Sequence[str]
Read = tuple[int, int]


def below_hundred(words: Words, at: int) -> Read | None:
    """One to ninety-nine, and zero."""
    word = words[at] if at < len(words) else ""
    if word in SMALL:
        return SMALL[word], at + 1
    if word not in TENS:
        return None
    unit = SMALL.get(words[at + 1], 0) if at + 1 < len(words) else 0
    return (TENS[word] + unit, at + 2) if 0 < unit < 10 else (TENS[word], at + 1)


def _below_thousand(words: Words, at: int) -> Read | None:
    head = below_hundred(words, at)
    if head is None or head[0] == 0 or head[1] >= len(words) or words[head[1]] != "hundred":
        return head
    value, end = head[0] * 100, head[1] + 1
    rest = below_hundred(words, end + 1 if words[end : end + 1] == ["and"] else end)
    return (value + rest[0], rest[1]) if rest and rest[0] else (value, end)


def cardinal(words: Words, at: int) -> Read | None:
    """A whole number: two hundred and five, fifty five hundred, a hundred twenty, three million."""
    if words[at] == "a" and words[at + 1 : at + 2] == ["hundred"]:
        read = _below_thousand(["one", *words[at + 1 :]], 0)
        return (read[0], at + read[1]) if read else None
    total, ceiling, told_to, end = 0, 10**15, at, at
    while group := _below_thousand(words, end):
        value, end = group
        scale = SCALES.get(words[end], 1) if end < len(words) else 1
        if scale >= ceiling or (total and not value):
            break
        total, ceiling = total + value * scale, scale
        told_to = end = end + (scale > 1)
        if scale == 1:
            break
        end += words[end : end + 1] == ["and"]
    return (total, told_to) if told_to > at else None


def ordinal(words: Words, at: int) -> Read | None:
    """Third, twenty first, one hundred and tenth."""
    if words[at] in SMALL and words[at + 1 : at + 2] == ["hundred"]:
        rest = _ordinal_below_hundred(words, at + (3 if words[at + 2 : at + 3] == ["and"] else 2))
        return (SMALL[words[at]] * 100 + rest[0], rest[1]) if rest else None
    return _ordinal_below_hundred(words, at)


def _ordinal_below_hundred(words: Words, at: int) -> Read | None:
    word, following = " ".join(words[at : at + 1]), " ".join(words[at + 1 : at + 2])
    if word in ORDINALS:
        return ORDINALS[word], at + 1
    if word in TENS and ORDINALS.get(following, 10) < 10:
        return TENS[word] + ORDINALS[following], at + 2
    return None


def digits(words: Words, at: int) -> tuple[str, int]:
    """Digits that are read out one by one, as in a telephone number: five five oh, double seven."""
    told, end = "", at
    while end < len(words):
        times = _TIMES.get(words[end], 1)
        place = end + (times > 1)
        word = words[place] if place < len(words) else ""
        value = 0 if word in OH and (told or times > 1) else SMALL.get(word, 10)
        if value > 9:
            break
        told, end = told + str(value) * times, place + 1
    return told, end


def year(words: Words, at: int) -> Read | None:
    """A year in two halves: nineteen eighty four, twenty oh five, eighteen hundred."""
    century = below_hundred(words, at)
    first = TENS.get(words[at]) if words[at] in TENS else SMALL.get(words[at])
    if century is None or first is None or not 16 <= first <= 20 or at + 1 >= len(words):
        return None
    if words[at + 1] in OH:
        unit = SMALL.get(words[at + 2], 0) if at + 2 < len(words) else 0
        return (first * 100 + unit, at + 3) if 0 < unit < 10 else None
    rest = below_hundred(words, at + 1)
    return (first * 100 + rest[0], rest[1]) if rest and rest[0] >= 10 else None
