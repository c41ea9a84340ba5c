"""Chinese words with numerals in them that are no numbers: idioms, names, days of a week, lunar dates.

A lone digit is written as one only where a rule of `chinese` asks for it. So this list holds what such a rule would
take, and what looks like a number of ten or more; 一心一意 and 三明 are safe without it.
"""

import re
from collections import defaultdict

_WORDS = """
十全十美 十拿九稳 十有八九 十之八九 八九不离十 一五一十 七老八十 一目十行 闻一知十 以一当十 一传十 十传百
十万火急 十万八千里 十恶不赦 十面埋伏 十年寒窗 寒窗十年 十年树木 十年如一日 十年磨一剑 十室九空 十指 十里洋场
十字 十足 十佳 十大 十堰 十三陵 十三香 十三经 十三太保 十八般 十八罗汉 十八线 十八层地狱 十二生肖 十二星座
十二指肠 十二时辰 十四行诗 十项全能 十月革命 十月怀胎 五十步笑百步 二十四节气 二十四史 二十四孝 二十五史
二十八宿 三十六计 三十而立 四十不惑 五十知天命 三十年河东 三十年河西 四十大盗 七十二变 七十二行 三百六十行
一百零八将 一千零一夜 九九八十一难 十万个为什么 二万五千里长征 二十大 十九大 十八大 双十一 双十二 国庆十一
今年十一 去年十一 明年十一 十一放假 十一假期 十一长假 十一黄金周 十一期间 一点一滴 一点一点 一点儿 一点点
这一点 那一点 有一点 差一点 每一点 一元论 二元论 一元化 一元二次 二元一次 三元桥 三元里 三元及第 五元素
一岁一枯荣 三岁看老 一号文件 一号位 一米阳光 五月天 六月飞雪 三伏 一亩三分地 五分钟热度 三分钟热度 三秒胶
一波三折 三克油 一度电视 再一次 三毛钱特效 五毛钱特效 三日游 二日游 一号店 半斤八两 一步一个脚印 五折叠
三折叠 二楼座
"""
_NUMBERS = "十二五 十三五 十四五 十五五 九一八 一二九 一二一 一二三 百八十 千八百"
"""Such words of numerals alone, when no other stands next to them."""
_NUMERAL = "[零〇一二三四五六七八九十百千万亿点]"
_PATTERNS = (
    "(?:星期|礼拜|周)[一二三四五六](?![百千万]|十(?![一二]?[点月]))",
    "初(?:[一二三四五六七八九]|十[一二三四五]?)(?![零一二三四五六七八九十百千万])",
    "第[一二三四五六七八九](?![零一二三四五六七八九十百千万亿点])",
    "(?:农历|阴历|旧历|正月|腊月|冬月|大年)[零一二三四五六七八九十初正腊冬闰月]+",
    "(?:八月十五|二月二|三月三|五月五|七月七|九月九)(?![零一二三四五六七八九十日号])",
    "二百五(?![十块元公米千斤平度])",
    "[一二三四五六七八九十]+届[一二三四五六七八九]中全会",
)


def _alternatives(words: list[str]) -> str:
    """The words by their first character, so that a text without it is passed over at once; long ones first."""
    tails: dict[str, list[str]] = defaultdict(list)
    for word in sorted(words, key=len, reverse=True):
        tails[word[0]].append(word[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in tails.items())


_KEPT = re.compile(
    "|".join(
        (
            *_PATTERNS,
            f"(?<!{_NUMERAL})(?:{_alternatives(_NUMBERS.split())})(?!{_NUMERAL})",
            _alternatives(_WORDS.split()),
        )
    )
)
MASK = "\ufffc"


def masked(text: str) -> str:
    """The text, of the same length, with such words made unreadable."""
    return _KEPT.sub(lambda match: MASK * len(match[0]), text)
