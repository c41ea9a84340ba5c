"""Which script a text is in, and traditional Chinese in simplified characters."""

import re

import opencc

CHINESE = frozenset({"zh", "yue"})
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN = re.compile("[A-Za-z]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fd-\u30ff\uff66-\uff9f]")


def is_chinese(text: str, language: str | None) -> bool:
    """Whether the text is Chinese: it has Han characters, and its language is Chinese or, where unknown, no kana."""
    if language is None:
        return bool(HAN.search(text)) and not _KANA.search(text)
    return language in CHINESE and bool(HAN.search(text))


def is_english(text: str, language: str | None) -> bool:
    """Whether the text is English: by its language, or in Latin letters alone where Chinese was expected."""
    return language == "en" or (language in CHINESE and bool(_LATIN.search(text)) and not HAN.search(text))


class Simplifier:
    """Writes traditional Chinese in simplified characters, one for one, so that positions stay."""

    def __init__(self) -> None:
        self._t2s = opencc.OpenCC("t2s")

    def simplify(self, text: str) -> str:
        """The text in simplified characters, of the same length."""
        simplified: str = self._t2s.convert(text)
        if len(simplified) == len(text):
            return simplified
        single = (self._t2s.convert(char) for char in text)
        return "".join(new if len(new) == 1 else old for old, new in zip(text, single, strict=True))
