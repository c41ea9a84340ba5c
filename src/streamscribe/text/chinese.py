"""Spoken Chinese numbers as people write them: 2026年4月16日, 下午3点30分, 35.5%, 1亿3000万, 零下5度.

Where a run of numerals begins, the first rule that fits says how far the number goes; a run that none fits stays.
Numbers of ten or more are written in digits; a lone digit only where digits are usual (dates, clocks, sums of money,
measures, ranges, scores), as 两个人 and 三天 read better than 2个人 and 3天 (GB/T 15835 leaves them free).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from streamscribe.text.chinese_numbers import NUMERALS, number, positional
from streamscribe.text.chinese_words import MASK, masked
from streamscribe.text.timed import Edit

_ANY = f"[{NUMERALS}]"
_DIGIT = "[一二两三四五六七八九]"
_PLACE = "[零〇一二三四五六七八九幺]"
"""A digit that is read out by itself, as in a year or a telephone number."""
_NUMBER = f"{_ANY}++(?:点{_PLACE}++)?"
_RUN = re.compile(_NUMBER)
_TWO_DIGITS = re.compile(f"{_DIGIT}{{2}}")
_UP_TO = re.compile(f"{_ANY}[到至]$")
_INTEGER = re.compile(f"{_ANY}+")
_BEGIN = re.compile(f"[负{NUMERALS}]")
_MINUS = "(?<![胜平正辜肩担背不抱自重亏有])负"

_NOON = "上午|下午|早上|早晨|晚上|凌晨|中午|傍晚|清晨|夜里|半夜|深夜|午夜|今早|今晚|明早|明晚|昨晚|当晚|当天|每晚|每早"
_CUE = re.compile(
    f"(?:{_NOON}|[今明后昨前每]天|(?:周|星期|礼拜)[日天末]|[{NUMERALS}][日号]|点半?[到至]|[零〇{NUMERALS}]点钟?[到至]|{MASK})$"
)
"""What stands before a time of day; a masked word is most often a day of the week."""
_HOUR = "(?:二十[一二三四]?|十[一二三四五六七八九]?|[零〇一二两三四五六七八九])"
_TENS = "[二三四五]?十[一二三四五六七八九]?"
_MINUTE = f"(?:[零〇][一二三四五六七八九]|{_TENS}|[一二三四五六七八九])"
_COUNTED = "[个位名条人家块元天年月岁次种件台张本只份杯瓶包盒袋支把万亿百千]"
_COUNTERS = frozenset(
    "个位名条人块元天年月日号岁次种件台张本只份杯瓶包盒袋支把分秒点小周层楼级辆架艘座间所户套双对副片部场届期章节集页段篇首幅棵朵根"
    "颗粒头匹米公斤吨克升万亿倍多余毫厘英平立美欧港家寸国省道题票折毛角度组队批门科步成站遍趟顿圈局盘轮强千到至"
)
"""十 before anything else is most often of a word (一曝十寒, 合十)."""
_SECOND = frozenset("到至第比乘加减于")
_A_BIT = frozenset("这那有差早晚快慢多少大小好高低")
"""一点 after these is a little."""

_MEASURES = (
    "公里|厘米|毫米|微米|纳米|米(?!其林|线)|英里|海里|英寸|英尺|公斤|千克|毫克|微克|克(?!服|制|隆|己)|斤|吨|"
    "毫升|公升|平方|平米|立方|公顷|亩|千瓦|兆|赫兹|伏特|安培|摄氏|华氏|分贝|像素|"
    "美元|美金|欧元|英镑|日元|港元|港币|块钱|毛钱|元(?!素|首|老|旦|宵|气)|号(?!召|称|角|叫)|岁(?!月)|楼|单元|个百分点|毫安|毫秒|海拔"
)
_LENGTHS = "分钟|秒(?!杀)|小时|倍(?![体性镜])"
"""As measures, but 一分钟 and 一倍 are words."""
_LETTERS = "(?:[GKDBCPVTMASgkdbcpvtmas]|[GMKT]B|[gmkt]b|[KMG]?Hz|k[gmW]|[cm]m|m[gl])(?![A-Za-z])"
_BEFORE_DIGIT = re.compile("(?:(?<![A-Za-z])[A-Za-z]|(?i:mp|gpt|iphone|ipad|windows|win|ps|usb|usb c|python|ios)) ?$")

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


def _is_clock(before: str, said: str, after: str) -> bool:
    """一点十分 may be a bit that is very..., and 三点五分 a mark of 3.5."""
    if _CUE.search(before):
        return True
    hour, _, minute = said.partition("点")
    if hour == "一" and before[-1:] in _A_BIT:
        return False
    if minute.startswith("十分") and after and "\u4e00" <= after[0] <= "\u9fff":
        return after[0] in "出开到见的左右前后以起准集吃睡"
    return not re.match(f"{_DIGIT}分", minute)


def _is_hour(before: str, said: str, after: str) -> bool:
    if not _CUE.search(before):
        return False
    return said != "一点" or after[:1] not in ("点", "儿", "也", "都", "没", "不", "事", "用")


def _is_pair(before: str, said: str, after: str) -> bool:
    """Two digits that name a year, unless they are neighbours: 七八年 are seven or eight."""
    first, second = map(_PLACES.index, said.replace("〇", "零"))
    return second != first + 1 and said != "一一"


_PLACES = "零一二三四五六七八九"


def _is_read_out(before: str, said: str, after: str) -> bool:
    return not (len(said) == 3 and said in "一二三四五六七八九" and re.match(_COUNTED, after))


def _is_range(before: str, said: str, after: str) -> bool:
    """Not 一到十二点: once it is twelve."""
    return not (said == "一" and re.match(f".{_ANY}+[点号]", after) and before[-1:] != "从")


def _is_exact(before: str, said: str, after: str) -> bool:
    """Not 几十分之一."""
    return before[-1:] not in ("数", "几")


def _is_large(before: str, said: str, after: str) -> bool:
    """A number of ten or more, and no estimate: not 数十万, 二十几, 三十来个."""
    if before[-1:] in ("数", "双", "几") or after.startswith(("几", "来", "好几")) or said[0] in "百千万亿":
        return False
    if after[:1] == "十" or (said.startswith("一点") and before[-1:] in _A_BIT):
        return False
    if said == "十":
        return before[-1:] in _SECOND or (after[:1] in _COUNTERS and not (after[0] == "分" and after[1:2] != "钟"))
    return "点" in said or (len(said) > 1 and any(char in "十百千万亿" for char in said))


def _follows_letter(before: str, said: str, after: str) -> bool:
    if not _BEFORE_DIGIT.search(before) or re.match(f"{_COUNTED}|[下些起直样点定般旦]", after):
        return False
    return said != "一" or not ("\u4e00" <= after[:1] <= "\u9fff")


def _is_negative(before: str, said: str, after: str) -> bool:
    """Not 一胜负三."""
    return len(said) > 2 or after[:1] in ("度", "摄", "到", "至")


def _degree(before: str, said: str, after: str) -> bool:
    """五度 is a temperature or an angle; 一度 and 三度 may be times that something was done."""
    return said not in "一二三" or before[-1:] in tuple("下上温到至约有是了升降高低负")


def _always(before: str, said: str, after: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Rule:
    """What fits where numerals begin; `fits` is asked with the text before, the match and the text after."""

    pattern: re.Pattern[str]
    fits: Guard = _always
    write: Writer = _numbers


def _rule(pattern: str, fits: Guard = _always, write: Writer = _numbers) -> _Rule:
    return _Rule(re.compile(pattern), fits, write)


_RULES = (
    _rule(
        f"(?P<minus>{_MINUS})?(?P<of>[百千])分之(?P<low>{_NUMBER})(?:(?P<to>[到至](?:(?P=of)分之)?)(?P<high>{_NUMBER}))?(?!几)",
        write=_percent,
    ),
    _rule(
        f"(?:(?P<whole>{_ANY}++)又)?(?P<of>(?!百分|千分){_ANY}++)(?<![万亿])分之(?P<part>{_ANY}++)",
        _is_exact,
        _fraction,
    ),
    _rule(f"{_MINUS}{_NUMBER}(?![楼层屏平场胜])", _is_negative, _negative),
    # dates
    _rule(
        "(?:十[一二]?|[一二三四五六七八九])(?=月(?!球|亮|饼|台|[一二三四五六七八九](?![日号十零])))",
        lambda before, said, after: before[-1:] != "个",
    ),
    _rule(f"(?<=月){_DIGIT}(?=日)|{_PLACE}{{2}}(?=年代)|[零五六七八九][零五](?=后(?![面来天]))"),
    _rule(f"{_PLACE}{{2}}(?=年(?![级前后来内间里多以华]))", _is_pair),
    # clocks
    _rule(f"{_HOUR}点钟?{_MINUTE}分(?![之数])(?:{_MINUTE}秒)?", _is_clock, _clock),
    _rule(f"{_HOUR}(?=点(?:半(?!夜|信)|一刻|三刻|整(?![理体个])|钟)|点[到至](?:{_NOON})?{_HOUR}点)"),
    _rule(f"{_HOUR}点(?:{_MINUTE}(?!{_ANY}|{_COUNTED}|点))?", _is_hour, _clock),
    _rule(f"{_HOUR}点{_TENS}(?!{_ANY}|{_COUNTED}|分)", _is_clock, _clock),
    # numbers in their forms
    _rule(f"{_PLACE}++(?:点{_PLACE}++){{2,}}", write=_dotted),
    _rule(f"{_PLACE}{{3,}}+(?![十百千两点])", _is_read_out),
    _rule(
        f"{_NUMBER}[比]{_NUMBER}|{_NUMBER}(?:(?:加|减|乘以?|除以){_NUMBER})+(?=等于|大于|小于)|(?<=等于|大于|小于){_NUMBER}"
    ),
    # measures
    _rule(
        f"{_NUMBER}块{_DIGIT}毛(?:{_DIGIT}(?!{_ANY}))?|{_NUMBER}块{_DIGIT}(?!十|{_COUNTED})|{_ANY}++毛{_DIGIT}(?!{_ANY})"
    ),
    _rule(f"{_NUMBER}元{_DIGIT}角(?:{_DIGIT}(?=分))?"),
    _rule(
        f"{_NUMBER}米{_PLACE}{{1,2}}(?!{_ANY}|{_COUNTED})|{_NUMBER}度{_PLACE}(?!{_ANY}|{_COUNTED}|音)|{_NUMBER}斤{_DIGIT}(?=两)|{_NUMBER}秒{_PLACE}{{1,2}}(?!{_ANY}|{_COUNTED})"
    ),
    _rule(f"{_DIGIT}(?=度(?![假过量日])|度$)", _degree),
    _rule(f"(?<!负){_DIGIT}(?={_MEASURES})|[二两三四五六七八九](?={_LENGTHS})|{_DIGIT}(?={_LETTERS})"),
    _rule(
        f"一(?=个?小时{_ANY}++分|分{_ANY}++秒)|{_DIGIT}(?=个小时{_ANY}++分|分{_ANY}++秒)|(?<=打)(?:{_PLACE}{{2}}|{_DIGIT})(?=折)|{_PLACE}{{2}}(?=折)"
    ),
    _rule(f"{_DIGIT}(?=[到至]{_ANY})", _is_range),
    _rule(f"{_DIGIT}(?!{_ANY}|点)", lambda before, said, after: bool(_UP_TO.search(before))),
    _rule(f"{_DIGIT}(?!{_ANY})", _follows_letter),
    _rule(_NUMBER, _is_large),
)


def edits(text: str) -> list[Edit]:
    """What to write in digits."""
    return list(_edits(masked(text), text)) if _BEGIN.search(text) else []


def _edits(readable: str, text: str) -> Iterator[Edit]:
    at, after_digits = 0, -1  # 三块五一斤 is not 3块51斤
    while begin := _BEGIN.search(readable, at):
        found, at = _written(readable, begin.start())
        for start, stop, new in found:
            if (
                new
                and new != text[start:stop]
                and start != after_digits
                and not text[max(0, start - 1) : start].isdecimal()
            ):
                yield Edit(start, stop, new)
                after_digits = stop


def _written(readable: str, at: int) -> tuple[list[Piece], int]:
    """What the first rule that fits writes at `at`, and where to go on."""
    for rule in _RULES:
        match = rule.pattern.match(readable, at)
        if match is None or not rule.fits(readable[max(0, at - 8) : at], match[0], readable[match.end() :][:8]):
            continue
        pieces = [*rule.write(match)]
        if all(new for _, _, new in pieces):
            return pieces, match.end()
    run = _RUN.match(readable, at)
    return [], run.end() if run else at + 1
