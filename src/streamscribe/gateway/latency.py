"""How long a live stream waits for its text: from the arrival of the audio to the result that holds it."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

from streamscribe.core.audio import AudioFormat
from streamscribe.core.results import Result

_MARK_EVERY_MS = 250
_MAX_MARKS = 128
"""32 seconds: longer than the longest segment."""


class LatencyObserver(Protocol):
    """Who counts the times."""

    def first_token(self, seconds: float) -> None:
        """From the arrival of a segment's first audio to its first text."""
        ...

    def partial_interval(self, seconds: float) -> None:
        """Between two partials of one segment."""
        ...

    def final_latency(self, seconds: float) -> None:
        """From the arrival of a segment's last audio to a final of it."""
        ...


class LatencyProbe:
    """Remembers when a stream's audio arrived, at most one mark per quarter of a second and 32 s of them.

    Files get no probe: how fast they come says nothing about what a speaker waits for.
    """

    __slots__ = ("_at", "_bytes", "_bytes_per_second", "_end_ms", "_observer", "_partial_at", "_segment")

    def __init__(self, audio: AudioFormat, observer: LatencyObserver) -> None:
        self._observer = observer
        self._bytes_per_second = audio.bytes_per_second
        self._bytes = 0
        self._end_ms: list[int] = []
        self._at: list[float] = []
        self._segment = -1
        self._partial_at = 0.0

    def arrived(self, size_bytes: int, now: float) -> None:
        """Audio came."""
        self._bytes += size_bytes
        end_ms = self._bytes * 1000 // self._bytes_per_second
        if self._end_ms and end_ms - self._end_ms[-1] < _MARK_EVERY_MS:
            return
        if len(self._end_ms) == _MAX_MARKS:
            del self._end_ms[: _MAX_MARKS // 2], self._at[: _MAX_MARKS // 2]
        self._end_ms.append(end_ms)
        self._at.append(now)

    def recognised(self, result: Result, now: float) -> None:
        """A result came; empty text is no token."""
        if result.text and result.segment_id > self._segment:
            self._segment = result.segment_id
            self._partial_at = 0.0
            self._observe(self._observer.first_token, result.start_ms, now)
        if result.is_final:
            self._observe(self._observer.final_latency, result.end_ms, now)
        elif result.segment_id == self._segment:
            if self._partial_at:
                self._observer.partial_interval(now - self._partial_at)
            self._partial_at = now

    def _observe(self, observe: Callable[[float], None], position_ms: int, now: float) -> None:
        mark = bisect_left(self._end_ms, position_ms)
        if mark < len(self._at):
            observe(now - self._at[mark])
