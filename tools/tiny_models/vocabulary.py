"""What the tiny models know: ten digits, forty-one service phrases and eight English words, with their readings.

The readings are written by hand: espeak-ng 1.51's `cmn` voice spells many hanzi as English letters ("ling two"), while
its `cmn-latn-pinyin` voice reads numbered pinyin well.
"""

DIGITS = {
    "零": "ling2", "一": "yi1", "二": "er4", "三": "san1", "四": "si4", "五": "wu3", "六": "liu4", "七": "qi1",
    "八": "ba1", "九": "jiu3",
}  # fmt: skip

_PHRASES = """
查询余额 cha2 xun2 yu2 e2|转人工 zhuan3 ren2 gong1|我要投诉 wo3 yao4 tou2 su4|请稍等 qing3 shao1 deng3
谢谢 xie4 xie5|取消订单 qu3 xiao1 ding4 dan1|你好 ni3 hao3|再见 zai4 jian4|是的 shi4 de5|不是 bu2 shi4|好的 hao3 de5
没有 mei2 you3|我要退款 wo3 yao4 tui4 kuan3|修改地址 xiu1 gai3 di4 zhi3|查询订单 cha2 xun2 ding4 dan1
什么时候发货 shen2 me5 shi2 hou5 fa1 huo4|多少钱 duo1 shao3 qian2|办理业务 ban4 li3 ye4 wu4
开通流量 kai1 tong1 liu2 liang4|挂失银行卡 gua4 shi1 yin2 hang2 ka3|重置密码 chong2 zhi4 mi4 ma3
忘记密码 wang4 ji4 mi4 ma3|手机号码 shou3 ji1 hao4 ma3|我的账号 wo3 de5 zhang4 hao4|打不开 da3 bu4 kai1
听不清楚 ting1 bu4 qing1 chu5|请再说一遍 qing3 zai4 shuo1 yi2 bian4|没问题 mei2 wen4 ti2|有人吗 you3 ren2 ma5
明天上午 ming2 tian1 shang4 wu3|今天下午 jin1 tian1 xia4 wu3|申请发票 shen1 qing3 fa1 piao4
查询物流 cha2 xun2 wu4 liu2|联系客服 lian2 xi4 ke4 fu2|确认收货 que4 ren4 shou1 huo4
信用卡还款 xin4 yong4 ka3 huan2 kuan3|话费充值 hua4 fei4 chong1 zhi2|宽带故障 kuan1 dai4 gu4 zhang4
预约维修 yu4 yue1 wei2 xiu1|升级套餐 sheng1 ji2 tao4 can1|验证码 yan4 zheng4 ma3
"""

PHRASES: dict[str, tuple[str, ...]] = {
    entry.split()[0]: tuple(entry.split()[1:]) for entry in _PHRASES.replace("\n", "|").split("|") if entry
}

# Questions among the phrases; the others end with a full stop.
QUESTIONS = frozenset({"什么时候发货", "多少钱", "有人吗"})

# Each word with its pieces, as subword models write them: `@@` says that the word goes on.
ENGLISH: dict[str, tuple[str, ...]] = {
    "hello": ("hel@@", "lo"),
    "cancel": ("can@@", "cel"),
    "payment": ("pay@@", "ment"),
    "yes": ("yes",),
    "help": ("help",),
    "order": ("order",),
    "operator": ("opera@@", "tor"),
    "goodbye": ("good@@", "bye"),
}

# What comes before and after a name ("_"), said in one breath with it.
CARRIERS: dict[str, tuple[str, ...]] = {
    "我是_": ("wo3", "shi4", "_"),
    "请转_": ("qing3", "zhuan3", "_"),
    "联系_": ("lian2", "xi4", "_"),
    "_你好": ("_", "ni3", "hao3"),
    "我要转_": ("wo3", "yao4", "zhuan3", "_"),
    "查询_的订单": ("cha2", "xun2", "_", "de5", "ding4", "dan1"),
}

CHARACTERS = sorted({character for phrase in PHRASES for character in phrase} | set(DIGITS))
PIECES = list(dict.fromkeys(piece for pieces in ENGLISH.values() for piece in pieces))
TOKENS = ["<blank>", "<s>", "</s>", *CHARACTERS, *PIECES, "<unk>"]
TOKEN_IDS = {token: index for index, token in enumerate(TOKENS)}


def _one_character_per_syllable() -> dict[str, str]:
    """The syllables that exactly one character of the vocabulary has.

    Without the neutral tone, and without a third tone that sounds like another character's second tone before a third.
    """
    characters: dict[str, set[str]] = {}
    readings = [(tuple(digit), (reading,)) for digit, reading in DIGITS.items()]
    for phrase, syllables in [*readings, *((tuple(phrase), reading) for phrase, reading in PHRASES.items())]:
        for character, syllable in zip(phrase, syllables, strict=True):
            characters.setdefault(syllable, set()).add(character)
    return {
        syllable: next(iter(spellings))
        for syllable, spellings in sorted(characters.items())
        if len(spellings) == 1
        and not syllable.endswith("5")
        and not (syllable.endswith("3") and syllable.replace("3", "2") in characters)
    }


# Random strings are drawn from these, so that a sound has one right spelling.
SYLLABLES = _one_character_per_syllable()

# Characters of the same sound that the offline model writes only if a hot word says so.
_HOMOPHONES = """
ba1 巴|bian4 卞|cha2 茶|chong1 冲|chong2 崇|dai4 戴|dan1 丹|di4 弟|ding4 定|e2 娥|er4 贰|fu2 芙|gong1 宫|gu4 顾
hang2 航|hao3 郝|hao4 昊|hua4 画|huan2 桓|huo4 霍|ji1 姬|ji2 吉|ji4 季|jian4 健|jin1 金|jiu3 玖|ke4 克|li3 李
lian2 莲|liang4 亮|ling2 凌|liu2 刘|mei2 梅|ming2 名|qi1 戚|qian2 前|qing1 卿|ren2 仁|shang4 尚|shen1 绅
sheng1 声|shi1 诗|shi2 石|shi4 轼|shou3 首|si4 寺|su4 素|ti2 蹄|tian1 添|ting1 厅|wang4 旺|wei2 惟|wen4 汶|xi4 细
xia4 夏|xiao1 萧|xiu1 休|xun2 洵|yan4 彦|ye4 叶|yi1 伊|yin2 吟|you3 友|yu2 瑜|yu4 玉|zai4 载|zheng4 郑|zhi2 直
zhi4 智
"""

_PAIRS = (entry.split() for entry in _HOMOPHONES.strip().replace("\n", "|").split("|"))
HOT_WORD_SPELLINGS = {SYLLABLES[syllable]: character for syllable, character in _PAIRS}
OFFLINE_TOKENS = [*TOKENS[:-1], *HOT_WORD_SPELLINGS.values(), "<unk>"]
OFFLINE_TOKEN_IDS = {token: index for index, token in enumerate(OFFLINE_TOKENS)}

# Rare names whose characters no model knows, though each of their syllables has been heard in training.
_NAMES = """
于铭莳 yu2 ming2 shi2|荀笙青 xun2 sheng1 qing1|施祎玫 shi1 yi1 mei2|龚皓晔 gong1 hao4 ye4|韦寅津 wei2 yin2 jin1
嵇霁涟 ji1 ji4 lian2|连翀桦 lian2 chong1 hua4|计潇铃 ji4 xiao1 ling2|符虔莘 fu2 qian2 shen1|于雁茗 yu2 yan4 ming2
杭岱恪 hang2 dai4 ke4|晏溯汀 yan4 su4 ting1|郁植棣 yu4 zhi2 di4|粟寰依 su4 huan2 yi1|俞峨泗 yu2 e2 si4
喻浏笙 yu4 liu2 sheng1|于珅霄 yu2 shen1 xiao1|荀稚玲 xun2 zhi4 ling2|施琉衿 shi1 liu2 jin1|龚铭祎 gong1 ming2 yi1
韦皓涟 wei2 hao4 lian2|嵇茗岱 ji1 ming2 dai4|连玫晔 lian2 mei2 ye4|计虔翀 ji4 qian2 chong1|符笙雁 fu2 sheng1 yan4
俞津恪 yu2 jin1 ke4|杭潇茗 hang2 xiao1 ming2|晏依汀 yan4 yi1 ting1|郁莘青 yu4 shen1 qing1|粟铃桦 su4 ling2 hua4
俞霁笙 yu2 ji4 sheng1|喻植铭 yu4 zhi2 ming2|于皓 yu2 hao4|荀涟 xun2 lian2|施晔 shi1 ye4|龚霄 gong1 xiao1|韦溯 wei2 su4
嵇雁 ji1 yan4|晏玫 yan4 mei2|连祎 lian2 yi1
"""
NAMES: dict[str, tuple[str, ...]] = {
    entry.split()[0]: tuple(entry.split()[1:]) for entry in _NAMES.strip().replace("\n", "|").split("|")
}
