"""Masks what a tenant must not see: digits and listed words, each character by a star, so that all times stay."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from streamscribe.text.phrases import PhraseFinder, fold, is_edge
from streamscribe.text.spoken_digits import DIGIT_CHARS, DIGIT_WORDS, spoken_digits
from streamscribe.text.timed import Edit

MASK = "*"
_DIGIT_CHARS = frozenset(DIGIT_CHARS)


class Redactor:
    """A tenant's redaction, compiled."""

    def __init__(self, words: Sequence[str], *, digits: bool) -> None:
        self._digits = digits
        self._words = PhraseFinder(words)
        draft_words = [*words, *DIGIT_WORDS.split()] if digits else list(words)
        self._draft_words = PhraseFinder(draft_words)
        self._beginnings = sorted({folded for word in draft_words if (folded := fold(word.strip())[0])})
        self._longest = max(map(len, self._beginnings), default=0)

    def edits(self, text: str) -> list[Edit]:
        """What to mask in a final: listed words, digits, and digits told in words. The text keeps its length."""
        masked = set(self._found(self._words, text))
        if self._digits:
            masked.update(at for at, char in enumerate(text) if char.isdigit())
            masked.update(at for start, end in spoken_digits(text) for at in range(start, end) if text[at].isalnum())
        return [Edit(at, at + 1, MASK) for at in sorted(masked)]

    def mask(self, text: str) -> str:
        """A final's text, masked."""
        return _masked(text, (edit.start for edit in self.edits(text)))

    def draft(self, text: str) -> str:
        """A partial's text, masked without its end, where that may be the beginning of something to mask.

        Of a text that goes on, the draft goes on too: what was told once stays. So each character is judged for
        itself, and every Chinese digit is masked, also in words that hold no number (一个).
        """
        masked = set(self._found(self._draft_words, text))
        if self._digits:
            masked.update(at for at, char in enumerate(text) if char.isdigit() or char in _DIGIT_CHARS)
        told = self._decided(text)
        return _masked(text, masked)[:told].rstrip() if told < len(text) else _masked(text, masked)

    def _found(self, finder: PhraseFinder, text: str) -> Iterator[int]:
        for one in finder.find(text):
            yield from (at for at in range(one.start, one.end) if not text[at].isspace())

    def _decided(self, text: str) -> int:
        """Where what may become a listed word begins, at the end of the text; its length where nothing may."""
        folded, places = fold(text)
        for at in range(max(0, len(folded) - self._longest), len(folded)):
            if is_edge(folded, at) and self._may_go_on(folded[at:]):
                return places[at]
        return len(text)

    def _may_go_on(self, end: str) -> bool:
        """Whether a text that ends so may have a listed word there that it has not yet."""
        index = bisect_left(self._beginnings, end)
        if index == len(self._beginnings) or not self._beginnings[index].startswith(end):
            return False
        if self._beginnings[index] != end or not is_edge(end + "a", len(end)):
            return True
        return index + 1 < len(self._beginnings) and self._beginnings[index + 1].startswith(end)


def _masked(text: str, places: Iterator[int] | set[int]) -> str:
    chars = list(text)
    for at in places:
        chars[at] = MASK
    return "".join(chars)
