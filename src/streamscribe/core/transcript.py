"""The text of one session, all channels: versioned partials with a stable prefix, and finals that never change.

Laws kept here: 3 (one final per segment and pass, then only a final of a higher pass; versions only grow) and 5 (word
times are monotone and inside their segment). Where one pass is all, a channel's text is told in the order of its
segments, for clients that only append. Only open segments are remembered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamscribe.core.integrity import ensure
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.core.script import CLOSING_MARKS, common_prefix, join, unit_ends


@dataclass(slots=True)
class _Segment:
    channel: int
    start_ms: int
    end_ms: int
    text: str = ""
    stable: str = ""
    final_pass: int = 0


class Transcript:
    """The ledger of a session's segments; `last_pass` is the highest pass that will come for each.

    Ids count up from `next_id`, over all channels.

    Methods that give a Result spend a version on it, and give None where there is nothing to tell: the segment is
    unknown or closed, its pass has its final, or the partial is the same as the last, or comes before its turn.
    """

    def __init__(self, last_pass: int = 1, next_id: int = 0) -> None:
        self._last_pass = last_pass
        self._next_id = next_id
        self._segments: dict[int, _Segment] = {}
        self._opened = 0
        self._closed = 0
        self._version = 0

    @property
    def version(self) -> int:
        """The newest version; 0 before the first."""
        return self._version

    @property
    def open_segments(self) -> int:
        """How many segments still wait for their last final."""
        return len(self._segments)

    @property
    def next_id(self) -> int:
        """The id that no segment has had yet."""
        return self._next_id

    def open_segment(self, channel: int, start_ms: int, again: int | None = None) -> int:
        """The id of a new segment, or `again` of one that another worker opened before."""
        segment_id = self._next_id if again is None else again
        self._next_id = max(self._next_id, segment_id + 1)
        self._opened += 1
        self._segments[segment_id] = _Segment(channel, start_ms, start_ms)
        return segment_id

    def partial(
        self,
        segment_id: int,
        text: str,
        end_ms: int,
        *,
        sequence: int,
        words: Sequence[Word] = (),
        settled: int | None = None,
        confidence: float = 0.0,
        language: str | None = None,
    ) -> Result | None:
        """A new decode of an open segment.

        Its first `settled` characters are stable where the decoder says so; else what two decodes in a row agree on, up
        to a word's end. A text that contradicts what is stable is told as the stable prefix and the rest of the new
        text after as many words.
        """
        segment = self._segments.get(segment_id)
        if segment is None or segment.final_pass or not self._may_begin(segment_id, segment):
            return None
        heard, text = text, continue_from(segment.stable, text)
        agreed = common_prefix(segment.text, text) if settled is None else text[:settled]
        stable = max(segment.stable, agreed, key=len)
        if text == segment.text and stable == segment.stable:
            return None
        segment.text, segment.stable = text, stable
        segment.end_ms = max(segment.end_ms, end_ms)
        if text != heard:  # its words would tell another text
            words = ()
        return self._tell(
            segment_id,
            segment,
            ResultType.PARTIAL,
            pass_=1,
            sequence=sequence,
            words=words,
            confidence=confidence,
            language=language,
        )

    def final(
        self,
        segment_id: int,
        pass_: int,
        text: str,
        end_ms: int,
        words: Sequence[Word] = (),
        *,
        sequence: int,
        confidence: float = 0.0,
        language: str | None = None,
        emotion: str | None = None,
        events: tuple[str, ...] = (),
        degraded: bool = False,
    ) -> Result | None:
        """The text of a pass, told once; that of the last pass closes the segment."""
        segment = self._segments.get(segment_id)
        if segment is None or pass_ <= segment.final_pass:
            return None
        segment.text = segment.stable = text
        segment.end_ms = max(segment.start_ms, end_ms)
        segment.final_pass = pass_
        if pass_ >= self._last_pass:
            self.close_segment(segment_id)
        return self._tell(
            segment_id,
            segment,
            ResultType.FINAL,
            pass_=pass_,
            sequence=sequence,
            words=words,
            confidence=confidence,
            language=language,
            emotion=emotion,
            events=events,
            degraded=degraded,
        )

    def drop(self, segment_id: int, pass_: int, *, sequence: int) -> Result | None:
        """A pass in which nobody spoke: an empty final, which takes back what this or another worker has told."""
        segment = self._segments.get(segment_id)
        return None if segment is None else self.final(segment_id, pass_, "", segment.end_ms, sequence=sequence)

    def close_segment(self, segment_id: int) -> None:
        """Forgets a segment: nothing more will be told of it."""
        if self._segments.pop(segment_id, None) is not None:
            self._closed += 1

    def _may_begin(self, segment_id: int, segment: _Segment) -> bool:
        """Whether the text before it is told; a pass that follows would put it right."""
        if self._last_pass > 1:
            return True
        return not any(one < segment_id and at.channel == segment.channel for one, at in self._segments.items())

    def _tell(
        self,
        segment_id: int,
        segment: _Segment,
        type_: ResultType,
        *,
        pass_: int,
        sequence: int,
        words: Sequence[Word],
        confidence: float,
        language: str | None,
        emotion: str | None = None,
        events: tuple[str, ...] = (),
        degraded: bool = False,
    ) -> Result:
        self._version += 1
        return Result(
            type=type_,
            pass_=pass_,
            segment_id=segment_id,
            version=self._version,
            sequence=sequence,
            channel=segment.channel,
            text=segment.text,
            stable_chars=len(segment.stable),
            start_ms=segment.start_ms,
            end_ms=segment.end_ms,
            words=clamp(words, segment.start_ms, segment.end_ms),
            confidence=confidence,
            language=language,
            emotion=emotion,
            events=events,
            degraded=degraded,
        )

    def check_integrity(self) -> None:
        """Opened == open + closed; the stable prefix is a prefix; times are in order."""
        ensure(self._opened == len(self._segments) + self._closed, "opened == open + closed")
        ensure(all(segment_id < self._next_id for segment_id in self._segments), "ids count up")
        for segment in self._segments.values():
            ensure(segment.text.startswith(segment.stable), "stable is a prefix of the text")
            ensure(segment.start_ms <= segment.end_ms, "start <= end")
            ensure(segment.final_pass < self._last_pass, "an open segment waits for a pass")


def continue_from(stable: str, text: str) -> str:
    """`text` if it begins with `stable`; else `stable` and what `text` says after as many words."""
    if text.startswith(stable):
        return text
    said, heard = unit_ends(stable), unit_ends(text)
    if len(heard) <= len(said):
        return stable
    at = heard[len(said) - 1] if said else 0
    rest = text[at:]
    if not said or said[-1] < len(stable):  # the stable prefix has its punctuation already
        rest = rest.lstrip(CLOSING_MARKS)
    return stable + rest if rest[:1].isspace() else join(stable, rest)


def clamp(words: Sequence[Word], start_ms: int, end_ms: int) -> tuple[Word, ...]:
    """The words with times that never go back and lie within the segment."""
    clamped: list[Word] = []
    floor = start_ms
    for word in words:
        start = min(max(word.start_ms, floor), end_ms)
        end = min(max(word.end_ms, start), end_ms)
        clamped.append(
            word if (start, end) == (word.start_ms, word.end_ms) else replace(word, start_ms=start, end_ms=end)
        )
        floor = end
    return tuple(clamped)
