"""What stands around Chinese numerals: the patterns of numbers, and whether they mean one where they stand.

Each question gets up to eight characters before, the numerals, and up to eight characters after; the words of
`chinese_words` are unreadable in them.
"""

import re

from streamscribe.text.chinese_numbers import NUMERALS
from streamscribe.text.chinese_words import MASK

ANY = f"[{NUMERALS}]"
DIGIT = "[一二两三四五六七八九]"
PLACE = "[零〇一二三四五六七八九幺]"
"""A digit that is read out by itself, as in a year or a telephone number."""
NUMBER = f"{ANY}++(?:点{PLACE}++)?"
_UP_TO = re.compile(f"{ANY}[到至]$")
MINUS = f"(?<![胜平正辜肩担背不抱自重亏有0-9%‰{NUMERALS}])负"

NOON = "上午|下午|早上|早晨|晚上|凌晨|中午|傍晚|清晨|夜里|半夜|深夜|午夜|今早|今晚|明早|明晚|昨晚|当晚|当天|每晚|每早"
_CUE = re.compile(
    f"(?:{NOON}|[今明后昨前每]天|(?:周|星期|礼拜)[日天末]|[{NUMERALS}][日号]|点半?[到至]|[零〇{NUMERALS}]点钟?[到至]|{MASK})$"
)
"""What stands before a time of day; a masked word is most often a day of the week."""
HOUR = "(?:二十[一二三四]?|十[一二三四五六七八九]?|[零〇一二两三四五六七八九])"
TENS = "[二三四五]?十[一二三四五六七八九]?"
MINUTE = f"(?:[零〇][一二三四五六七八九]|{TENS}|[一二三四五六七八九])"
COUNTED = "[个位名条人家块元天年月岁次种件台张本只份杯瓶包盒袋支把万亿百千]"
_COUNTERS = frozenset(
    "个位名条人块元天年月日号岁次种件台张本只份杯瓶包盒袋支把分秒点小周层楼级辆架艘座间所户套双对副片部场届期章节集页段篇首幅棵朵根"
    "颗粒头匹米公斤吨克升万亿倍多余毫厘英平立美欧港家寸国省道题票折毛角度组队批门科步成站遍趟顿圈局盘轮强千到至"
)
"""十 before anything else is most often of a word (一曝十寒, 合十)."""
_SECOND = frozenset("到至第比乘加减于")
_A_BIT = frozenset("这那有差早晚快慢多少大小好高低")
"""一点 after these is a little."""

MEASURES = (
    "公里|厘米|毫米|微米|纳米|米(?!其林|线)|英里|海里|英寸|英尺|公斤|千克|毫克|微克|克(?!服|制|隆|己)|斤|吨|"
    "毫升|公升|平方|平米|立方|公顷|亩|千瓦|兆|赫兹|伏特|安培|摄氏|华氏|分贝|像素|"
    "美元|美金|欧元|英镑|日元|港元|港币|块钱|毛钱|元(?!素|首|老|旦|宵|气)|号(?!召|称|角|叫)|岁(?!月)|楼|单元|个百分点|毫安|毫秒|海拔"
)
LENGTHS = "分钟|秒(?!杀)|小时|倍(?![体性镜])"
"""As measures, but 一分钟 and 一倍 are words."""
LETTERS = "(?:[GKDBCPVTMASgkdbcpvtmas]|[GMKT]B|[gmkt]b|[KMG]?Hz|k[gmW]|[cm]m|m[gl])(?![A-Za-z])"
_BEFORE_DIGIT = re.compile("(?:(?<![A-Za-z])[A-Za-z]|(?i:mp|gpt|iphone|ipad|windows|win|ps|usb|usb c|python|ios)) ?$")
_PLACES = "零一二三四五六七八九"


def is_clock(before: str, said: str, after: str) -> bool:
    """一点十分 may be a bit that is very..., and 三点五分 a mark of 3.5."""
    if _CUE.search(before):
        return True
    hour, _, minute = said.partition("点")
    if hour == "一" and before[-1:] in _A_BIT:
        return False
    if minute.startswith("十分") and after and "\u4e00" <= after[0] <= "\u9fff":
        return after[0] in "出开到见的左右前后以起准集吃睡"
    return not re.match(f"{DIGIT}分", minute)


def is_hour(before: str, said: str, after: str) -> bool:
    """An hour by what stands before it: 下午三点, but 三点要说 are three points."""
    if not _CUE.search(before):
        return False
    return said != "一点" or after[:1] not in ("点", "儿", "也", "都", "没", "不", "事", "用")


def is_pair(before: str, said: str, after: str) -> bool:
    """Two digits that name a year, unless they are neighbours: 七八年 are seven or eight."""
    first, second = map(_PLACES.find, said.replace("〇", "零"))
    return second != first + 1 and said != "一一"


def is_read_out(before: str, said: str, after: str) -> bool:
    """Not 三四五个: three, four or five."""
    return not (len(said) == 3 and said in "一二三四五六七八九" and re.match(COUNTED, after))


def is_range(before: str, said: str, after: str) -> bool:
    """Not 一到十二点: once it is twelve."""
    return not (said == "一" and re.match(f".{ANY}+[点号]", after) and before[-1:] != "从")


def is_exact(before: str, said: str, after: str) -> bool:
    """Not 几十分之一."""
    return before[-1:] not in ("数", "几")


def is_large(before: str, said: str, after: str) -> bool:
    """A number of ten or more, and no estimate: not 数十万, 二十几, 三十来个."""
    if before[-1:] in ("数", "双", "几") or after.startswith(("几", "来", "好几")) or said[0] in "百千万亿":
        return False
    if after[:1] == "十" or (said.startswith("一点") and before[-1:] in _A_BIT):
        return False
    if said == "十":
        return before[-1:] in _SECOND or (after[:1] in _COUNTERS and not (after[0] == "分" and after[1:2] != "钟"))
    return "点" in said or (len(said) > 1 and any(char in "十百千万亿" for char in said))


def follows_letter(before: str, said: str, after: str) -> bool:
    """T三, MP三, but not A一个."""
    if not _BEFORE_DIGIT.search(before) or re.match(f"{COUNTED}|[下些起直样点定般旦]", after):
        return False
    return said != "一" or not ("\u4e00" <= after[:1] <= "\u9fff")


def is_negative(before: str, said: str, after: str) -> bool:
    """Not 一胜负三."""
    return len(said) > 2 or after[:1] in ("度", "摄", "到", "至")


def is_degree(before: str, said: str, after: str) -> bool:
    """五度 is a temperature or an angle; 一度 and 三度 may be times that something was done."""
    return said not in "一二三" or before[-1:] in tuple("下上温到至约有是了升降高低负")


def is_month(before: str, said: str, after: str) -> bool:
    """Not 一个月."""
    return before[-1:] != "个"


def ends_range(before: str, said: str, after: str) -> bool:
    """The second number of 三到五."""
    return bool(_UP_TO.search(before))


def always(before: str, said: str, after: str) -> bool:
    """Numerals that mean a number wherever they stand."""
    return True
