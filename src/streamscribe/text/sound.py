"""How words sound: the syllables of Chinese characters, and the consonants of English words.

Chinese is compared by pinyin, with what speakers and recognisers confuse held to be one: z/zh, c/ch, s/sh, n/l, f/h,
an/ang, en/eng, in/ing. English is compared by its consonants, in the manner of Metaphone.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from streamscribe.text.script import HAN

_FLAT = re.compile("^([zcs])h")
_FRONT = re.compile("(?<=[aei])ng$")
_HU = re.compile("^hu(?=[aio]|n$|$)")
_HU_FINALS = {"": "u", "i": "ei", "n": "en"}


_OFTEN_OTHERWISE = frozenset(
    "长重行乐都还调传弹朝曾单藏参差种冲处当得发分干和几将教觉卡空量落没模磨便难宁铺强切曲散舍省盛数宿提吐为系相兴应与载涨中转着"
    "朴任仇解华翟查盖尉区薄屏大会车石降角缝担背藉扎炸称间见奇称好喝号"
)
"""Characters of which another reading than the first is usual too, in names foremost."""
_USUAL_READINGS = 3


@dataclass(frozen=True, slots=True)
class Syllable:
    """A reading of a character: its pinyin, its tone (1 to 5) and the sound that it shares with what is confused."""

    pinyin: str
    tone: str
    sound: str


def is_han(char: str) -> bool:
    """Whether the character has Chinese readings."""
    return bool(HAN.match(char))


@lru_cache(maxsize=2**16)
def readings(char: str) -> tuple[Syllable, ...]:
    """The usual readings of a Chinese character, the first one foremost; none of what is no such character."""
    if not is_han(char):
        return ()
    from pypinyin import Style, pinyin  # reads dictionaries, which takes a second

    found = pinyin(char, style=Style.TONE3, heteronym=True, neutral_tone_with_five=True)[0]
    told = [reading for reading in found if reading[-1:].isdigit()]
    usual = told[: _USUAL_READINGS if char in _OFTEN_OTHERWISE else 1]
    return tuple(Syllable(reading[:-1], reading[-1], shared_sound(reading[:-1])) for reading in usual)


def shared_sound(syllable: str) -> str:
    """What stands for a syllable and all that are confused with it: `shang` and `san` are one."""
    sound = _FLAT.sub(r"\1", syllable)
    if sound == "hong":
        return "fen"
    if hu := _HU.match(sound):
        rest = sound[hu.end() :]
        sound = "f" + _HU_FINALS.get(rest, rest)
    if sound[0] == "n" and len(sound) > 1 and sound != "ng":
        sound = "l" + sound[1:]
    return _FRONT.sub("n", sound)


_SPELLING = (
    ("^(?:kn|gn|pn)", "n"),
    ("^wr", "r"),
    ("^ps", "s"),
    ("^x", "s"),
    ("^wh", "w"),
    ("ph", "f"),
    ("sch", "sk"),
    ("tch|ch(?!r)", "C"),
    ("sh|[st]io(?=n)", "S"),
    ("th", "T"),
    ("dge?(?=[eiy])|dge", "j"),
    ("gh(?=[^aeiouy]|$)", ""),
    ("c(?=[eiy])", "s"),
    ("qu", "kw"),
    ("c|q", "k"),
    ("x", "ks"),
    ("z", "s"),
    ("(?<!^)[yh]|(?<=[aeiou])w", ""),
    ("(?<!^)[aeiou]+", ""),
    ("^[aeiouy]+", "A"),
    (r"(.)\1+", r"\1"),
)
_RULES = tuple((re.compile(pattern), written) for pattern, written in _SPELLING)
_VOICELESS = str.maketrans("bdgvj", "ptkfC")


@lru_cache(maxsize=2**14)
def consonants(word: str) -> str:
    """The consonants of a word in small letters, without those that are not heard; `A` for a vowel at its head."""
    for rule, written in _RULES:
        word = rule.sub(written, word)
    return word


def voiceless(sound: str) -> str:
    """Consonants without the difference of b and p, d and t, g and k, v and f, j and ch."""
    return re.sub(r"(.)\1+", r"\1", sound.translate(_VOICELESS))


LETTER_NAMES = {
    "ay": "a", "bee": "b", "be": "b", "see": "c", "sea": "c", "dee": "d", "eff": "f", "gee": "g", "aitch": "h",
    "eye": "i", "jay": "j", "kay": "k", "ell": "l", "em": "m", "en": "n", "oh": "o", "pea": "p", "pee": "p", "cue":
    "q", "queue": "q", "are": "r", "ess": "s", "tea": "t", "tee": "t", "you": "u", "vee": "v", "ex": "x", "why":
    "y", "zee": "z", "zed": "z",
}  # fmt: skip
"""Words that may be a letter's name."""
