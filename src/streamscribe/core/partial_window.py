"""Which stretch of an open segment a partial decodes again, so that the cost of a partial has a bound."""

from collections.abc import Sequence

from streamscribe.core.integrity import ensure
from streamscribe.core.results import Word
from streamscribe.core.script import join


class PartialWindow:
    """Bounds the audio that partials of one segment decode to `window_ms`; the text before it is committed.

    All times are milliseconds of the session. The caller asks `begin` where to decode from and gives the text and
    words of that decode to `read`. From three quarters of the window on, words that two decodes agree on are
    committed, and the start moves behind them; at least half a window stays open.
    """

    def __init__(self, start_ms: int, window_ms: int) -> None:
        self._start_ms = start_ms
        self._window_ms = window_ms
        self._end_ms = self._read_ms = start_ms
        self._committed = ""
        self._text = ""
        self._words: tuple[Word, ...] = ()

    def begin(self, end_ms: int) -> int:
        """Where a decode of the audio up to `end_ms` begins: never more than the window before its end.

        Where words gave no place to cut (no times, no agreement), all of the last text is committed: a word at the
        cut may be torn in a partial, never in a final.
        """
        if end_ms - self._start_ms > self._window_ms:
            self._commit(len(self._text), max(self._read_ms, end_ms - self._window_ms), ())
        self._end_ms = end_ms
        return self._start_ms

    def read(self, text: str, words: Sequence[Word]) -> str:
        """The text of the whole segment, after the decode that `begin` bounded."""
        whole = join(self._committed, text)
        agreed = _agreed(self._words, words)
        self._text, self._words = text, tuple(words)
        self._read_ms = self._end_ms
        if self._end_ms - self._start_ms > self._window_ms * 3 // 4:
            self._cut(agreed, self._end_ms - self._window_ms // 2)
        return whole

    def _cut(self, agreed: int, latest_ms: int) -> None:
        """Commits the agreed words that ended by `latest_ms`."""
        at = 0
        count = 0
        for word in self._words[:agreed]:
            found = self._text.find(word.text, at)
            if found < 0 or word.end_ms > latest_ms:
                break
            at = found + len(word.text)
            count += 1
        if count:
            self._commit(at, self._words[count - 1].end_ms, self._words[count:])

    def _commit(self, at: int, start_ms: int, words: tuple[Word, ...]) -> None:
        self._committed = join(self._committed, self._text[:at])
        self._text = self._text[at:]
        self._words = words
        self._start_ms = max(self._start_ms, start_ms)

    def check_integrity(self) -> None:
        """Start <= end <= start + window, and no more was read than was begun."""
        ensure(self._read_ms <= self._end_ms, "read <= end")
        ensure(self._start_ms <= self._end_ms <= self._start_ms + self._window_ms, "start <= end <= start + window")


def _agreed(one: Sequence[Word], other: Sequence[Word]) -> int:
    count = 0
    for first, second in zip(one, other, strict=False):
        if first.text != second.text:
            break
        count += 1
    return count
