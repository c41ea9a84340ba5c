"""Where segments begin and end on one channel, and which audio each gives to a model.

All positions are samples of the session's clock. Decisions follow from voice events and positions alone; since both
come in fixed blocks, they do not depend on packet sizes (law 4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamscribe.core.audio import to_samples
from streamscribe.core.integrity import ensure


class EndpointReason(StrEnum):
    """Why a segment ended."""

    SILENCE = "silence"
    MAX_LENGTH = "max_length"
    FLUSH = "flush"
    END = "end"
    TOO_SHORT = "too_short"


CUT_SEARCH = to_samples(2500)
"""A voice that grows too long is cut where it is quietest in so much audio before its longest."""


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """How segments are cut, in samples. A start of voice lies at most `lookback` before the block that tells it.

    Voice shorter than `min_speech` is no segment. Where all of these lie on a grid, and all that comes in, so does all
    that comes out.
    """

    max_segment: int
    preroll: int
    tail: int
    lookback: int
    min_speech: int = 0

    @property
    def cut_search(self) -> int:
        """How far before the longest a cut may lie: never in the first half of a segment."""
        return min(CUT_SEARCH, self.max_segment // 2)


Quietest = Callable[[int, int], int]
"""The sample between two at which the audio can best be cut."""


class VoiceChange(Protocol):
    """Voice began (`started`) or ended at sample `at`; changes alternate, beginning with a start."""

    @property
    def started(self) -> bool:
        """Whether it began."""
        ...

    @property
    def at(self) -> int:
        """The sample."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentOpened:
    """A segment began at `start`; a model that reads it early reads from `audio_start`."""

    start: int
    audio_start: int


@dataclass(frozen=True, slots=True)
class SegmentClosed:
    """The open segment is [start, end); its model reads [audio_start, audio_end), which contains it.

    Behind that it reads `padding` samples of silence, for what of the tail has not come.
    """

    start: int
    end: int
    audio_start: int
    audio_end: int
    reason: EndpointReason
    padding: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is in it: what a cut left of a voice that had ended before, or voice too short."""
        return self.end == self.start


Effect = SegmentOpened | SegmentClosed


@dataclass(frozen=True, slots=True)
class Between:
    """Where an endpointer stands while no segment is open; `voice_start` is None while there is no voice."""

    position: int = 0
    voice_start: int | None = None
    last_end: int = 0
    last_audio_end: int = 0


BEGINNING = Between()


class Endpointer:
    """Turns one channel's voice into segments.

    Law 5: segments follow each other and never overlap; none is longer than `max_segment`. Law 6: a model hears
    `preroll` before the voice, as far as no earlier model heard it, and `tail` after it, of which silence stands for
    what has not come. Where a segment is cut while voice goes on, the next one begins at the cut, and neither model
    hears the other's audio; one that is cut for its length is followed by no silence, for there is none.
    Voice that grows too long is cut where `quietest` says, by default at the longest. It begins where another stood.
    """

    def __init__(
        self,
        rules: EndpointRules,
        quietest: Quietest = lambda start, end: end,
        begin: Between = BEGINNING,
    ) -> None:
        self._rules = rules
        self._quietest = quietest
        self._position = begin.position
        self._voice = begin.voice_start is not None
        self._voice_start = begin.voice_start or 0
        self._open: SegmentOpened | None = None
        self._last_end = begin.last_end
        self._last_audio_end = begin.last_audio_end

    def follow(self, rules: EndpointRules) -> None:
        """Cuts by other rules from now on; a segment that is open is no longer than they allow, and ends by them."""
        self._rules = rules

    @property
    def open_segment(self) -> SegmentOpened | None:
        """The segment that is open now."""
        return self._open

    @property
    def quiet(self) -> bool:
        """Whether there is no voice and no segment."""
        return not self._voice and self._open is None

    @property
    def oldest_needed(self) -> int:
        """The first sample that an open or coming segment may still ask for."""
        if self._open:
            return self._open.audio_start
        if self._voice:
            return self._last_end
        return max(self._last_end, self._position - self._rules.lookback - self._rules.preroll)

    @property
    def between(self) -> Between | None:
        """From where another would go on alike, when it has advanced to the same position; None while there is none.

        A segment may be open if the other opens it again: one that began with a cut, before the newest sample.
        """
        opened = self._open
        if opened and (opened.start != self._last_end or opened != self._opening(opened.start)):
            return None
        if opened and opened.start == self._position:
            return None
        voice_start = self._voice_start if self._voice else None
        return Between(self._position, voice_start, self._last_end, self._last_audio_end)

    def advance(self, position: int, changes: Sequence[VoiceChange] = ()) -> list[Effect]:
        """The block that ends at `position` was heard; `changes` is what it told of the voice, in order."""
        self._position = max(self._position, position)
        effects: list[Effect] = []
        for change in changes:
            if change.started:
                self._voice = True
                self._voice_start = min(max(change.at, self._last_end), self._position)
                self._begin(self._voice_start, effects)
            else:
                self._go_on_until(change.at, effects)
                self._voice = False
                self._finish(change.at, EndpointReason.SILENCE, effects)
        self._go_on_until(self._position, effects)
        return effects

    def flush(self, position: int) -> list[Effect]:
        """Closes the open segment at `position`; if voice goes on, the next one begins there."""
        return self._close(position, EndpointReason.FLUSH)

    def end(self, position: int) -> list[Effect]:
        """Closes the open segment at `position`, where the audio ends."""
        return self._close(position, EndpointReason.END)

    def check_integrity(self) -> None:
        """Last end <= open start <= position; the open segment within its longest, while there is voice."""
        ensure(0 <= self._last_end <= self._last_audio_end <= self._position, "what was given has been heard")
        if self._open:
            ensure(self._voice, "an open segment has voice")
            ensure(self._last_end <= self._open.start <= self._position, "segments do not overlap")
            ensure(self._position - self._open.start <= self._rules.max_segment, "no segment is too long")
            ensure(0 <= self._open.audio_start <= self._open.start, "a segment's audio contains it")

    def _close(self, position: int, reason: EndpointReason) -> list[Effect]:
        effects = self.advance(position)
        self._finish(self._position, reason, effects)
        return effects

    def _go_on_until(self, position: int, effects: list[Effect]) -> None:
        """Voice reaches `position`: opens what a cut left to open, and cuts what grew too long."""
        if self._voice and not self._open and position > self._last_end:
            self._begin(self._last_end, effects)
        while self._open and position - self._open.start > self._rules.max_segment:
            latest = self._open.start + self._rules.max_segment
            cut = min(self._quietest(latest - self._rules.cut_search, latest), latest)
            self._finish(cut, EndpointReason.MAX_LENGTH, effects)
            self._begin(cut, effects)

    def _begin(self, start: int, effects: list[Effect]) -> None:
        self._open = self._opening(start)
        effects.append(self._open)

    def _opening(self, start: int) -> SegmentOpened:
        unheard = max(self._last_audio_end, start - self._rules.preroll)
        return SegmentOpened(start, audio_start=min(start, unheard))

    def _finish(self, end: int, reason: EndpointReason, effects: list[Effect]) -> None:
        if not self._open:
            return
        end = min(max(end, self._open.start), self._position)
        ended = reason in (EndpointReason.SILENCE, EndpointReason.END)
        if ended and end - self._voice_start < self._rules.min_speech:  # the next pre-roll may still have its audio
            start, audio_start, self._open = self._open.start, self._open.audio_start, None
            effects.append(SegmentClosed(start, start, audio_start, start, EndpointReason.TOO_SHORT))
            return
        wanted = end if reason is EndpointReason.MAX_LENGTH else end + self._rules.tail
        audio_end = min(self._position, wanted)
        padding = wanted - audio_end
        effects.append(SegmentClosed(self._open.start, end, self._open.audio_start, audio_end, reason, padding))
        self._open, self._last_end, self._last_audio_end = None, end, audio_end
