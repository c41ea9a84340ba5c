"""Inverse text normalisation: spoken numbers, dates, times and sums in digits."""

from streamscribe.text import chinese, english
from streamscribe.text.grammar import Grammar
from streamscribe.text.script import is_chinese
from streamscribe.text.timed import Edit


class InverseNormalizer:
    """Finds what to write in digits. Chinese and English; other languages stay as they are."""

    def __init__(self) -> None:
        self._grammar = Grammar()

    def warm_up(self) -> None:
        """Loads the grammars: about a second, once."""
        self._grammar.tokens("一百", "zh")
        self._grammar.tokens("one hundred", "en")

    def edits(self, text: str, language: str | None) -> list[Edit]:
        """What to replace in the text, in order, without overlap; a text that is normal already gets none."""
        if is_chinese(text, language):
            return chinese.edits(text, self._grammar)
        if language == "en":
            return english.edits(text, self._grammar)
        return []
