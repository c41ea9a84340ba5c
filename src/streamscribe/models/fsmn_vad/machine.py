"""From frames that are speech or not to segments: FunASR's multi-utterance rules, in constant memory.

FunASR's own post-processing (`FsmnVADStreaming`, fixed silence) keeps the waveform and lists that grow; all it
decides follows from what is kept here. Frames are 10 ms and counted since the stream began.
"""

from collections.abc import Iterable
from dataclasses import dataclass

FRAME_MS = 10


@dataclass(frozen=True, slots=True)
class VoiceRules:
    """When voice begins and ends, in frames. `silence` counts from where the window already says silence."""

    window: int
    speech_in_window: int
    silence_in_window: int
    lookback: int
    lookahead: int
    silence: float

    @property
    def start_reach(self) -> int:
        """How many frames a start may lie before the frame that proves it."""
        return self.window + self.lookback

    @property
    def end_reach(self) -> int:
        """How many frames an end by silence lies before the frame that proves it."""
        return max(0, int(self.silence) - self.lookahead - 1)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Voice begins (`started`) with the frame `frame`, or ended before it."""

    started: bool
    frame: int


class VoiceMachine:
    """One stream's boundaries. Boundaries alternate start, end, ... and never go back in time."""

    __slots__ = ("_floor", "_frame", "_mask", "_open", "_rules", "_silent_run", "_voiced", "_window")

    def __init__(self, rules: VoiceRules) -> None:
        self._rules = rules
        self._mask = (1 << rules.window) - 1
        self._frame = 0
        self._floor = 0
        self._open = False
        self._window = 0
        self._voiced = False
        self._silent_run = 0

    def advance(self, frames: Iterable[bool], *, last: bool = False) -> list[Boundary]:
        """Boundaries that the next frames prove; `last` says that the stream ends with them."""
        found: list[Boundary] = []
        for is_speech in frames:
            self._slide(is_speech)
            if not self._open:
                if self._voiced:
                    self._open = True
                    found.append(Boundary(True, max(self._floor, self._frame - self._rules.start_reach)))
            elif self._silent_run and self._silent_run >= self._rules.silence:
                found.append(self._close(self._frame + 1 - self._rules.end_reach))
            self._frame += 1
        if last and self._open:
            found.append(self._close(self._frame))
        return found

    def point(self) -> tuple[int, ...]:
        """All that it holds, of which another of the same rules goes on alike."""
        return (self._frame, self._floor, int(self._open), self._window, int(self._voiced), self._silent_run)

    def go_on(self, point: tuple[int, ...]) -> None:
        """Stands where the other stood; raises ValueError for what is no point."""
        frame, floor, is_open, window, voiced, silent_run = point
        if min(point) < 0 or max(is_open, voiced) > 1 or window > self._mask or floor > frame:
            raise ValueError("this is no point of a voice machine")
        self._frame, self._floor, self._window, self._silent_run = frame, floor, window, silent_run
        self._open, self._voiced = bool(is_open), bool(voiced)

    def _slide(self, is_speech: bool) -> None:
        """Moves the window by a frame: its share of speech says, with hysteresis, whether there is voice."""
        self._window = (self._window << 1 | is_speech) & self._mask
        speech = self._window.bit_count()
        was_voiced = self._voiced
        if was_voiced:
            self._voiced = speech > self._rules.silence_in_window
        else:
            self._voiced = speech >= self._rules.speech_in_window
        self._silent_run = 0 if was_voiced or self._voiced else self._silent_run + 1

    def _close(self, end: int) -> Boundary:
        """Ends the segment and forgets the window, so that the next voice must prove itself anew."""
        self._open = False
        self._floor = end
        self._window = 0
        self._voiced = False
        self._silent_run = 0
        return Boundary(False, end)
