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
一百零八将 一千零一夜 九九八十一难 十万个为什么 二万五千里长征 双十一 双十二 国庆十一 今年十一 去年十一
明年十一 十一放假 十一假期 十一长假 十一黄金周 十一期间 一点一滴 一点一点 一点儿 一点点 这一点 那一点 有一点
差一点 每一点 一元论 二元论 一元化 一元二次 二元一次 三元桥 三元里 三元及第 五元素 一岁一枯荣 三岁看老
一号文件 一号位 一米阳光 五月天 六月飞雪 三伏 一亩三分地 五分钟热度 三分钟热度 三秒胶 一波三折 三克油
一度电视 再一次 三毛钱特效 五毛钱特效 三日游 二日游 一号店 半斤八两 一步一个脚印 五折叠 三折叠 二楼座
七零八落 五零二落 五零四散 三六九等 一退六二五 八千里路 三寸不烂 连中三元 六月飞霜 六月雪 飞霜六月 五月节
八月节 五黄六月 三月不知肉味 六月寒 十年九不遇 十年磨剑 胜读十年书 十二分 十二万分 九流十家 十六国 三十六策
三十六行 十八变 板板六十四 正经八百 高八度 低八度 八万四千法门 十二属 十二经脉 声价十倍 身价十倍 三点一线
七零八碎 七零八散 零七八碎 三三五五 三三四四 七七八八 三五九旅 一元复始 一元函数 一元方程 二元方程 二元化
大三元 四度空间 五度空间 月复一月 六万大山 九万大山 十万大山 千儿八百 百儿八十 万儿八千 弱水三千
飞流直下三千尺 唐诗三百 八百壮士 降龙十八掌 胡笳十八拍 路易十 金钗十二 十二金钗 十二钗 十三姨 十三行 十六铺
十七孔桥 十八相送 十八怪 十八弯 十八禁 十六字 十二律 十二宫 十二支 十二平均律 第十二夜 说一千道一万
行百里者半九十 十年动乱 十年浩劫 十年内乱 十年生聚 十年窗下 十年怕井绳 十日谈 十美图 十步之内 十步芳草 男一号
女一号 一百单八 一岁三迁
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
    "(?:二十|十[一二三四五六七八九])大(?![于小])",
    "(?:神舟|长征|嫦娥|天宫|天问|天舟|风云|北斗|空军)[一二三四五六七八九十]+号",
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
