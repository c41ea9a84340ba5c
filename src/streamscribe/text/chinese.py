"""Spoken Chinese numbers as people write them: 2026年4月16日, 下午3:30, 35.5%, 1亿3000万.

wetext's grammar says where numbers are, as it knows idioms (一心一意); how they are written is decided here, from the
source, as its own way (2026/04/163:30p.m., 15min) is not how Chinese text is written.
"""

import re
from collections.abc import Iterator

from streamscribe.text.chinese_numbers import DIGITS, NUMERALS, in_digits, number, positional
from streamscribe.text.grammar import Grammar, Token
from streamscribe.text.timed import Edit

_CHAR = r"[^\s，。！？；：、,!?;:…]"
_NUMBERS = re.compile(f"{_CHAR}{{0,8}}[{NUMERALS}](?:{_CHAR}{{0,16}}[{NUMERALS}])*{_CHAR}{{0,8}}")
"""Numerals and what is near them in their clause, as idioms may; the rest would only cost the grammar time."""
_PLAIN = frozenset({"char", "whitelist"})
"""Kinds that hold no number; the white list is of idioms."""
_BEGINS_BEFORE = "数双几"
"""With these before it a number is a word: 数十万, 双十一."""
_GOES_ON = "几来" + DIGITS
"""After these a number is not over: 十几个, 二十来个, 三十七度五."""
_PERCENT = re.compile(rf"百分之([{NUMERALS}点]+)(?:([到至])(?:百分之)?([{NUMERALS}点]+))?")
_FRACTION = re.compile(rf"([{NUMERALS}]+)分之([{NUMERALS}]+)")
_CLOCK = re.compile(
    rf"(?P<noon>[^{NUMERALS}]*)(?P<hour>[{NUMERALS}]+)点(?:(?P<minute>[{NUMERALS}]+)分?|(?P<part>半|一刻|三刻))"
    rf"(?:(?P<second>[{NUMERALS}]+)秒)?"
)
_PARTS = {"半": 30, "一刻": 15, "三刻": 45}
_HOUR = re.compile(
    "(?:上午|下午|早上|晚上|凌晨|中午|傍晚|清晨|夜里|今早|今晚|明早|明晚|昨晚)"
    f"([两二三四五六七八九](?=点(?![{NUMERALS}半几多]))|一(?=点(?:[钟整到]|$)))"
)
_TWO_DIGITS = re.compile("[一二两三四五六七八九]{2}")
_COUNTED_RANGE = re.compile("(?:一二|[一两]两|[两二]三|三四|三五|四五|五六|六七|七八|八九)(?![零一二三四五六七八九])")


def edits(text: str, grammar: Grammar) -> list[Edit]:
    """What to write in digits."""
    found: list[Edit] = []
    for part in _NUMBERS.finditer(text):
        found += _edits(part[0], part.start(), grammar)
    return found


def _edits(part: str, offset: int, grammar: Grammar) -> Iterator[Edit]:
    tokens = grammar.tokens(part.replace("〇", "零"), "zh")
    pieces = ["".join(token.pieces) for token in tokens]
    if "".join(pieces) != part.replace("〇", "零"):
        return
    hours = {match.start(1) for match in _HOUR.finditer(part)}
    at = 0
    for token, piece in zip(tokens, pieces, strict=True):
        end = at + len(piece)
        if token.kind not in _PLAIN:
            written = _written(token, piece, part[at - 1 : at], part[end : end + 1])
        else:
            written = positional(piece) if at in hours else piece
        if written != piece:
            yield Edit(offset + at, offset + end, written)
        at = end


def _written(token: Token, source: str, before: str, after: str) -> str:
    """A token as people write it; its source where that is best."""
    if (before and before in _BEGINS_BEFORE) or (after and after in _GOES_ON):
        return source
    if (token.kind == "time" or source[-1] == "刻") and (clock := _CLOCK.fullmatch(source)):
        return _clock(clock)
    if token.kind == "fraction":
        return _FRACTION.sub(lambda match: f"{in_digits(match[2])}/{in_digits(match[1])}", source)
    if token.kind == "measure" and _PERCENT.search(source):
        return in_digits(_PERCENT.sub(_percent, source))
    if _TWO_DIGITS.fullmatch(source) or (token.kind == "measure" and _COUNTED_RANGE.match(source)):
        return source  # 五一, 三五个: a name, or a range
    return in_digits(source)


def _percent(match: re.Match[str]) -> str:
    low, to, high = match.groups()
    return f"{in_digits(low)}%" + (f"{to}{in_digits(high)}%" if to else "")


def _clock(match: re.Match[str]) -> str:
    hour = number(match["hour"])
    minute = _PARTS[match["part"]] if match["part"] else int(number(match["minute"]) or "0")
    second = f":{int(number(match['second']) or '0'):02}" if match["second"] else ""
    return f"{match['noon']}{hour}:{minute:02}{second}"
