"""Spoken Chinese numbers as people write them: 2026年4月16日, 下午3点30分, 35.5%, 1亿3000万, 零下5度.

Where a run of numerals begins, the first rule that fits says how far the number goes; a run that none fits stays.
Numbers of ten or more are written in digits; a lone digit only where digits are usual (dates, clocks, sums of money,
measures, ranges, scores), as 两个人 and 三天 read better than 2个人 and 3天 (GB/T 15835 leaves them free).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from streamscribe.text.chinese_context import (
    ANY,
    COUNTED,
    DIGIT,
    HOUR,
    LENGTHS,
    LETTERS,
    MEASURES,
    MINUS,
    MINUTE,
    NOON,
    NUMBER,
    PLACE,
    TENS,
    always,
    ends_range,
    follows_letter,
    is_clock,
    is_degree,
    is_exact,
    is_hour,
    is_large,
    is_month,
    is_negative,
    is_pair,
    is_range,
    is_read_out,
)
from streamscribe.text.chinese_numbers import NUMERALS, number, positional
from streamscribe.text.chinese_words import masked
from streamscribe.text.timed import Edit

_RUN = re.compile(NUMBER)
_TWO_DIGITS = re.compile(f"{DIGIT}{{2}}")
_UNREAD = re.compile(f"{NUMBER}{ANY}*")
"""What is passed over where no rule fits."""
_INTEGER = re.compile(f"{ANY}+")
_ENDS_OF_NUMBERS = frozenset("0123456789%‰")
_BEGIN = re.compile(f"[负{NUMERALS}]")

Piece: TypeAlias = tuple[int, int, str | None]
"""From where to where, and what to write there; None where it is no number after all."""
Guard = Callable[[str, str, str], bool]
Writer = Callable[[re.Match[str]], Iterator[Piece]]


def _numbers(match: re.Match[str]) -> Iterator[Piece]:
    """Each number in the match for itself, so that words around it keep their times."""
    for run in _RUN.finditer(match.string, match.start(), match.end()):
        yield run.start(), run.end(), number(run[0])


def _clock(match: re.Match[str]) -> Iterator[Piece]:
    """Hour, minute and second, each for itself."""
    for run in _INTEGER.finditer(match.string, match.start(), match.end()):
        yield run.start(), run.end(), number(run[0])


def _dotted(match: re.Match[str]) -> Iterator[Piece]:
    """A version or an address: 2.0.1."""
    yield match.start(), match.end(), positional(match[0].replace("点", "."))


def _exact(text: str) -> str | None:
    """A number in digits; none for two digits side by side, which are an estimate: 百分之二三."""
    return None if _TWO_DIGITS.fullmatch(text) else number(text)


def _percent(match: re.Match[str]) -> Iterator[Piece]:
    sign = "%" if match["of"] == "百" else "‰"
    low, high = (value and ("100" if value == "百" else _exact(value)) for value in (match["low"], match["high"]))
    told = low and ("-" if match["minus"] else "") + low + sign
    if match["high"]:
        told = told and high and f"{told}{match['to'][0]}{high}{sign}"
    yield match.start(), match.end(), told


def _fraction(match: re.Match[str]) -> Iterator[Piece]:
    if match["whole"]:
        yield match.start("whole"), match.end("whole"), number(match["whole"])
    part, of = _exact(match["part"]), _exact(match["of"])
    yield match.start("of"), match.end(), part and of and f"{part}/{of}"


def _negative(match: re.Match[str]) -> Iterator[Piece]:
    value = number(match[0][1:])
    yield match.start(), match.end(), value and "-" + value


@dataclass(frozen=True, slots=True)
class _Rule:
    """What fits where numerals begin; `fits` is asked with the text before, the match and the text after."""

    pattern: re.Pattern[str]
    fits: Guard = always
    write: Writer = _numbers


def _rule(pattern: str, fits: Guard = always, write: Writer = _numbers) -> _Rule:
    return _Rule(re.compile(pattern), fits, write)


_RULES = (
    _rule(
        f"(?P<minus>{MINUS})?(?P<of>[百千])分之(?P<low>{NUMBER})"
        f"(?:(?P<to>[到至](?:(?P=of)分之)?)(?P<high>{NUMBER}))?(?!几)",
        write=_percent,
    ),
    _rule(
        f"(?:(?P<whole>{ANY}++)又)?(?P<of>(?!百分|千分){ANY}++)(?<![万亿])分之(?P<part>{ANY}++)",
        is_exact,
        _fraction,
    ),
    _rule(f"{MINUS}{NUMBER}(?![楼层屏平场胜])", is_negative, _negative),
    # dates
    _rule(
        "(?:十[一二]?|[一二三四五六七八九])(?=月(?!球|亮|饼|台|[一二三四五六七八九](?![日号十百千万亿零点])))",
        is_month,
    ),
    _rule(f"(?<=月){DIGIT}(?=日)|{PLACE}{{2}}(?=年代)|[零五六七八九][零五](?=后(?![面来天]))"),
    _rule(f"{PLACE}{{2}}(?=年(?![级前后来内间里多以华]))", is_pair),
    # clocks
    _rule(f"{HOUR}点钟?{MINUTE}分(?![之数])(?:{MINUTE}秒)?", is_clock, _clock),
    _rule(f"{HOUR}(?=点(?:半(?!夜|信)|一刻|三刻|整(?![理体个])|钟)|点[到至](?:{NOON})?{HOUR}点)"),
    _rule(f"{HOUR}点(?:{MINUTE}(?!{ANY}|{COUNTED}|点))?", is_hour, _clock),
    _rule(f"{HOUR}点{TENS}(?!{ANY}|{COUNTED}|分)", is_clock, _clock),
    # numbers in their forms
    _rule(f"{PLACE}++(?:点{PLACE}++){{2,}}", write=_dotted),
    _rule(f"{PLACE}{{3,}}+(?![十百千两点])", is_read_out),
    _rule(f"{NUMBER}比{NUMBER}|(?<=等于|大于|小于){NUMBER}"),
    _rule(f"{NUMBER}(?:(?:加|减|乘以?|除以){NUMBER}){{1,9}}(?=等于|大于|小于)"),
    # measures
    _rule(f"{NUMBER}块{DIGIT}毛(?:{DIGIT}(?!{ANY}))?|{NUMBER}块{DIGIT}(?!十|{COUNTED})|{ANY}++毛{DIGIT}(?!{ANY})"),
    _rule(f"{NUMBER}元{DIGIT}角(?:{DIGIT}(?=分))?"),
    _rule(
        f"{NUMBER}[米秒]{PLACE}{{1,2}}(?!{ANY}|{COUNTED})|{NUMBER}度{PLACE}(?!{ANY}|{COUNTED}|音)|{NUMBER}斤{DIGIT}(?=两)"
    ),
    _rule(f"{DIGIT}(?=度(?![假过量日])|度$)", is_degree),
    _rule(f"(?<!负){DIGIT}(?={MEASURES})|[二两三四五六七八九](?={LENGTHS})|{DIGIT}(?={LETTERS})"),
    _rule(f"一(?=小时{ANY}++分)|{DIGIT}(?=个小时{ANY}++分|分{ANY}++秒)"),
    _rule(f"(?<=打){DIGIT}(?=折)|{PLACE}{{2}}(?=折)"),
    _rule(f"{DIGIT}(?=[到至]{ANY})", is_range),
    _rule(f"{DIGIT}(?!{ANY}|点)", ends_range),
    _rule(f"{DIGIT}(?!{ANY})", follows_letter),
    _rule(NUMBER, is_large),
)


def edits(text: str) -> list[Edit]:
    """What to write in digits."""
    return list(_edits(masked(text), text)) if _BEGIN.search(text) else []


def _edits(readable: str, text: str) -> Iterator[Edit]:
    at, after_digits = 0, -1  # 三块五一斤 is not 3块51斤
    while begin := _BEGIN.search(readable, at):
        found, at = _written(readable, begin.start())
        for start, stop, new in found:
            glued = start == after_digits or text[max(0, start - 1) : start] in _ENDS_OF_NUMBERS
            if new and new != text[start:stop] and not glued:
                yield Edit(start, stop, new)
                after_digits = stop


def _written(readable: str, at: int) -> tuple[list[Piece], int]:
    """What the first rule that fits writes at `at`, and where to go on."""
    for rule in _RULES:
        match = rule.pattern.match(readable, at)
        if match is None:
            continue
        end = match.end()
        if not rule.fits(readable[max(0, at - 8) : at], match[0], readable[end : end + 8]):
            continue
        pieces = [*rule.write(match)]
        if all(new for _, _, new in pieces):
            return pieces, match.end()
    run = _UNREAD.match(readable, at)
    return [], run.end() if run else at + 1
