"""Inverse text normalisation: spoken numbers, dates, times and sums in digits."""

from streamscribe.text import chinese, english
from streamscribe.text.script import is_chinese, is_english
from streamscribe.text.timed import Edit


def number_edits(text: str, language: str | None) -> list[Edit]:
    """What to write in digits, in order, without overlap; a text that is normal already gets none.

    Chinese and English; other languages stay as they are. Microseconds, and none where no number word is.
    """
    if is_chinese(text, language):
        return chinese.edits(text)
    return english.edits(text) if is_english(text, language) else []
