"""Finds English hot words that were written as other words: `kuber netties` is Kubernetes, `comfy you I` is ComfyUI."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2

from rapidfuzz.distance import Levenshtein

from streamscribe.core.options import Hotword
from streamscribe.text.candidates import Candidate, rewrite
from streamscribe.text.common_words import ENGLISH
from streamscribe.text.sound import LETTER_NAMES, consonants, voiceless

MIN_LETTERS = 4
"""Shorter hot words are left to the recogniser: too much sounds like them."""
MIN_CONSONANTS = 3
MAX_WORDS = 8
"""Words of a text that may be one hot word."""
MAX_SAME_SOUND = 8
"""Hot words of one sound that are looked at."""
ONE_WORD, MANY_WORDS, SHORT = 0.75, 0.6, 0.8
"""How alike the letters must be, of 1: of a word that was misspelt, of one that was taken apart or together, and of the
latter where it has few consonants."""
FEW_CONSONANTS = 5
PER_DOUBLING = 0.03
MOST_BY_WEIGHT = 0.1
"""What weight takes from that, or adds to it."""
SURE_WEIGHT = 50.0
"""From this weight on a hot word takes the place of usual words that sound so."""

_WORD = re.compile(r"[A-Za-z0-9]+(?:['’][A-Za-z]+)?")
_PHRASE = re.compile(r"[A-Za-z0-9 .'’_/+-]+")
_NO_LETTER = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class _Entry:
    phrase: str
    letters: str
    words: int
    relief: float
    sure: bool


class EnglishHotwords:
    """The hot words of a list that are in Latin letters, by their letters and by their sound."""

    def __init__(self, hotwords: Sequence[Hotword]) -> None:
        self._by_letters: dict[str, _Entry] = {}
        self._by_sound: dict[str, list[_Entry]] = {}
        for hotword in hotwords:
            if _PHRASE.fullmatch(hotword.phrase):
                self._add(hotword)
        self._beginnings = {known[:end] for known in self._by_letters for end in range(1, len(known) + 1)}
        self._sounds = {known[:end] for known in self._by_sound for end in range(1, len(known) + 1)}
        self.compared = 0
        """Runs of words that were looked up, and hot words that were compared with one, so far."""

    def _add(self, hotword: Hotword) -> None:
        letters = _NO_LETTER.sub("", hotword.phrase.lower())
        if len(letters) < MIN_LETTERS or letters.isdigit():
            return
        relief = min(max(PER_DOUBLING * log2(hotword.weight), -MOST_BY_WEIGHT), MOST_BY_WEIGHT)
        words = len(_WORD.findall(hotword.phrase))
        entry = _Entry(hotword.phrase, letters, words, relief, hotword.weight >= SURE_WEIGHT)
        self._by_letters.setdefault(letters, entry)
        sound = voiceless(consonants(letters))
        if len(sound) >= MIN_CONSONANTS and len(same := self._by_sound.setdefault(sound, [])) < MAX_SAME_SOUND:
            same.append(entry)

    def candidates(self, text: str, right: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
        """Places that sound like a hot word, outside those that are right already."""
        if not self._by_letters:
            return
        hidden = bytearray(len(text))
        for start, end in right:
            hidden[start:end] = b"\1" * (end - start)
        free = [word for word in _WORD.finditer(text) if hidden.find(1, word.start(), word.end()) < 0]
        for first in range(len(free)):
            yield from self._from(text, free[first : first + MAX_WORDS])

    def _from(self, text: str, words: Sequence[re.Match[str]]) -> Iterator[Candidate]:
        """The hot words that may begin with the first of the words."""
        run = _Run()
        for index, word in enumerate(words):
            if index and not text[words[index - 1].end() : word.start()].isspace():
                return
            run = run.then(_NO_LETTER.sub("", word[0].lower()))
            self.compared += 1
            if {run.letters, run.named}.isdisjoint(self._beginnings) and run.sound not in self._sounds:
                return
            found = self._best(run)
            if found is not None:
                start, end = words[0].start(), word.end()
                yield Candidate(start, end, found[0], rewrite(text, start, end, found[1].phrase))

    def _best(self, run: "_Run") -> tuple[float, _Entry] | None:
        """The hot word that a run of words is, and how much surer that is than it must be."""
        entry = self._by_letters.get(run.letters) or self._by_letters.get(run.named)
        if entry is not None:
            is_written_so = run.letters == entry.letters and run.words == entry.words
            return None if is_written_so or (run.usual and not entry.sure) else (1.0, entry)
        if run.usual:
            return None
        apart = SHORT if len(run.sound) < FEW_CONSONANTS else MANY_WORDS
        found: list[tuple[float, _Entry]] = []
        for entry in self._by_sound.get(run.sound, ()):
            self.compared += 1
            needed = (ONE_WORD if run.words == entry.words else apart) - entry.relief
            gain = Levenshtein.normalized_similarity(run.letters, entry.letters) - needed
            if gain >= 0:
                found.append((gain, entry))
        return max(found, key=lambda one: one[0], default=None)


@dataclass(frozen=True, slots=True)
class _Run:
    """Words side by side: their letters, the same with names of letters as letters, and their consonants."""

    words: int = 0
    letters: str = ""
    named: str = ""
    sound: str = ""
    usual: bool = True

    def then(self, word: str) -> "_Run":
        """With one word more."""
        sound = consonants(word)
        return _Run(
            self.words + 1,
            self.letters + word,
            self.named + LETTER_NAMES.get(word, word),
            voiceless(self.sound + (sound.removeprefix("A") if self.words else sound)),
            self.usual and word in ENGLISH,
        )
