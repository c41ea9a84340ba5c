"""How CT-Transformer reads a text: 20 words at a time, each time from the last sentence that has not ended yet."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from streamscribe.core.tokens import Mark

STEP_WORDS = 20
_LONG_WORDS, _LONGEST_WORDS = 200, 500
"""A sentence that grows longer is ended at a comma; what grows still longer without one is no longer read from its
beginning, which FunASR does at a cost that grows with the square."""

_WORD = re.compile(r"(?:(?!\s)[\x00-\x7f])+|\S")
_NONE, _COMMA, _STOP, _QUESTION = "_", "，", "。", "？"
_ENDS = (_STOP, _QUESTION)
_ENGLISH = {_COMMA: ",", _STOP: ".", _QUESTION: "?"}


@dataclass(frozen=True, slots=True)
class Word:
    """An English word, or one character of another script; it ends before position `end` of the text."""

    text: str
    end: int

    @property
    def is_english(self) -> bool:
        """Whether it is written in ASCII."""
        return self.text.isascii()


class Sentences:
    """One text on its way through the model: hand out a window, take the marks that the model sees in it."""

    def __init__(self, text: str) -> None:
        self._words = [Word(match[0], match.end()) for match in _WORD.finditer(text)]
        self._read = 0
        self._marks: list[str] = []

    def window(self) -> list[str]:
        """The next words to read; none when all are marked."""
        if len(self._marks) == len(self._words):
            return []
        self._read = min(self._read + STEP_WORDS, len(self._words))
        return [word.text for word in self._words[len(self._marks) : self._read]]

    def take(self, marks: Sequence[str]) -> None:
        """A mark or `_` behind each word of the window; those behind its last sentence are read again."""
        if self._read == len(self._words):
            self._marks += marks
            return
        inner = range(len(marks) - 2, 1, -1)
        end = next((index for index in inner if marks[index] in _ENDS), None)
        if end is not None:
            self._marks += marks[: end + 1]
        elif len(marks) > _LONG_WORDS:
            comma = next((index for index in inner if marks[index] == _COMMA), None)
            if comma is not None:
                self._marks += [*marks[:comma], _STOP]
            elif len(marks) > _LONGEST_WORDS:
                self._marks += marks[:_LONG_WORDS]

    def marks(self) -> tuple[Mark, ...]:
        """What the text is to be given, English marks behind English words; the last one ends a sentence."""
        found = [
            Mark(word.end, _ENGLISH.get(mark, mark) if word.is_english else mark)
            for word, mark in zip(self._words, self._marks, strict=True)
            if mark != _NONE
        ]
        if not self._words:
            return ()
        last = self._words[-1]
        written = found[-1].text if found and found[-1].at == last.end else ""
        if written in (_COMMA, "、", ","):
            found[-1] = Mark(last.end, "." if written == "," else _STOP, written)
        elif not written and last.text[-1] not in ("。", "？", ".", "?"):
            found.append(Mark(last.end, "." if last.is_english else _STOP, ""))
        return tuple(found)
