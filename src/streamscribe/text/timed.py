"""Text whose words have times, and edits that keep both true to each other."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamscribe.core.results import Word


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` (not included; at least one) of a text become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class TimedText:
    """A text and its words, which tell all of it in order: both are equal but for white space. Or no words at all."""

    text: str
    words: tuple[Word, ...] = ()

    def edited(self, edits: Sequence[Edit]) -> "TimedText":
        """This text with all edits made; they are in order and do not overlap.

        Words that share a replacement become one word, from the first one's start to the last one's end, with their
        mean confidence. A word of which nothing is left goes.
        """
        if not edits:
            return self
        return TimedText(_edited(self.text, edits), tuple(self._edited_words(edits)))

    def _edited_words(self, edits: Sequence[Edit]) -> Iterable[Word]:
        starts = word_starts(self.text, self.words)
        starts_of_edits = [edit.start for edit in edits]
        group: list[Word] = []
        group_start = 0
        for index, word in enumerate(self.words):
            group.append(word)
            end = starts[index + 1] if index + 1 < len(starts) else len(self.text)
            near = bisect_right(starts_of_edits, end) - 1
            if near >= 0 and edits[near].start < end < edits[near].end:
                continue
            first = bisect_right(starts_of_edits, group_start - 1)
            if first > near and len(group) == 1:
                yield word
                group, group_start = [], end
                continue
            inside = [edit for edit in edits[first : near + 1] if edit.end <= end]
            shifted = [Edit(edit.start - group_start, edit.end - group_start, edit.text) for edit in inside]
            text = _edited(self.text[group_start:end], shifted).strip()
            if text:
                confidence = sum(one.confidence for one in group) / len(group)
                yield Word(text, group[0].start_ms, group[-1].end_ms, confidence)
            group, group_start = [], end


def word_starts(text: str, words: Sequence[Word]) -> list[int]:
    """Where each word begins in the text (the first one at 0); fewer than the words where one is missing."""
    starts: list[int] = []
    at = 0
    for word in words:
        said = word.text.strip()
        begin = text.find(said, at)
        if begin < 0:
            break
        starts.append(begin if starts else 0)
        at = begin + len(said)
    return starts


def shown_words(text: str, shown: str, words: Sequence[Word]) -> tuple[Word, ...]:
    """The words of a text as they are in `shown`: the text with other characters in their places, or less of it."""
    starts = word_starts(text, words)
    if not words or len(starts) < len(words):
        return ()
    pieces = (shown[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    told = zip(words, pieces, strict=True)
    return tuple(Word(piece, word.start_ms, word.end_ms, word.confidence) for word, piece in told if piece)


def timed(text: str, words: Sequence[Word]) -> TimedText:
    """The text with its words; without them where they do not tell the text in order.

    What lies between two words (punctuation) goes to the one before it; words lose white space around them.
    """
    starts = word_starts(text, words)
    if not words or len(starts) < len(words):
        return TimedText(text)
    ends = [*starts[1:], len(text)]
    pieces = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    told = zip(words, pieces, strict=True)
    return TimedText(text, tuple(Word(one, w.start_ms, w.end_ms, w.confidence) for w, one in told if one))


def _edited(text: str, edits: Iterable[Edit]) -> str:
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += text[at : edit.start], edit.text
        at = edit.end
    return "".join(parts) + text[at:]
