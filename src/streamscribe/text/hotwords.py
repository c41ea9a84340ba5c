"""Writes hot words where a text has what sounds like them."""

from collections.abc import Iterable, Iterator, Sequence

from streamscribe.core.options import Hotword
from streamscribe.text.candidates import Candidate, choose, rewrite
from streamscribe.text.chinese_hotwords import ChineseHotwords
from streamscribe.text.english_hotwords import EnglishHotwords
from streamscribe.text.phrases import Found, PhraseFinder
from streamscribe.text.script import is_chinese
from streamscribe.text.timed import Edit, TimedText

MIN_CASED_LETTERS = 4
_MAX_ROUNDS = 3
"""A correction may let a neighbour be seen that was none before; more rounds than two are not known to happen."""


class HotwordIndex:
    """A list of hot words, compiled: the cost of a text does not grow with the list, but by places found."""

    def __init__(self, hotwords: Sequence[Hotword]) -> None:
        self._phrases = [hotword.phrase for hotword in hotwords]
        self._finder = PhraseFinder(self._phrases, longest=True)
        wanted = [hotword for hotword in hotwords if hotword.weight > 0]
        self._chinese = ChineseHotwords(wanted)
        self._english = EnglishHotwords(wanted)

    def correct(self, text: TimedText, language: str | None) -> TimedText:
        """The text with its hot words as the list writes them; corrected again, it stays as it is."""
        for _ in range(_MAX_ROUNDS if self._phrases else 0):
            edits = self.edits(text.text, language)
            if not edits:
                break
            text = text.edited(edits)
        return text

    def find(self, text: str) -> list[Found]:
        """Where the text has hot words as they are, whatever their case; not one inside another."""
        return self._finder.find(text)

    def said(self, text: str) -> tuple[str, ...]:
        """The phrases that the text has, in the list's order."""
        return tuple(self._phrases[number] for number in sorted({one.phrase for one in self.find(text)}))

    def edits(self, text: str, language: str | None) -> list[Edit]:
        """What to write in place of what, in order and without overlap; nothing inside a hot word that is right."""
        return [edit for one in self._chosen(text, language, self.find(text)) for edit in one.edits]

    def places(self, text: str, language: str | None) -> list[tuple[int, int]]:
        """Start and end of each hot word of the text, of those that are right and of those that are to be written."""
        if not self._phrases:
            return []
        found = self.find(text)
        places = [(one.start, one.end) for one in found]
        return places + [(one.start, one.end) for one in self._chosen(text, language, found)]

    def _chosen(self, text: str, language: str | None, found: Sequence[Found]) -> list[Candidate]:
        right = [(one.start, one.end) for one in found]
        candidates = list(self._cased(text, found))
        if is_chinese(text, language):
            candidates += self._chinese.candidates(text, right)
        if language in (None, "en") or is_chinese(text, language):
            candidates += self._english.candidates(text, right)
        return choose(candidates, len(text))

    def _cased(self, text: str, found: Sequence[Found]) -> Iterator[Candidate]:
        """Hot words that have capitals and stand there without: `comfyui`. Not short ones: `us` is not US."""
        as_listed = {(one.start, one.end) for one in found if text[one.start : one.end] == self._phrases[one.phrase]}
        for one in found:
            phrase = self._phrases[one.phrase]
            named = len(phrase) >= MIN_CASED_LETTERS and phrase != phrase.lower()
            if named and (one.start, one.end) not in as_listed:
                yield Candidate(one.start, one.end, 0.0, rewrite(text, one.start, one.end, phrase))


def hotword_chars(hotwords: Iterable[Hotword]) -> int:
    """The characters of all phrases of a list."""
    return sum(len(hotword.phrase) for hotword in hotwords)
