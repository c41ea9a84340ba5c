"""What was said before a segment, for a model that reads on from there."""

import asyncio
from dataclasses import dataclass

from streamscribe.worker.segment import Segment, seconds


@dataclass(frozen=True, slots=True)
class _Spoken:
    """The newest text of a channel, which ended at sample `end`."""

    text: str = ""
    end: int = 0


class Turn:
    """A segment's place in its channel's row: it waits for the text before it, and must `speak` or `fall_silent`."""

    def __init__(self, segment: Segment, before: asyncio.Future[_Spoken] | None, ttl_s: float) -> None:
        self.after: asyncio.Future[_Spoken] = asyncio.get_running_loop().create_future()
        self._segment = segment
        self._before = before
        self._ttl_s = ttl_s
        self._earlier = _Spoken()

    async def earlier(self) -> str:
        """The last text on the channel that ended at most so long before the segment; empty where there is none."""
        if self._before is not None:
            self._earlier = await asyncio.shield(self._before)
        gap_s = seconds(self._segment.start - self._earlier.end)
        return self._earlier.text if gap_s <= self._ttl_s else ""

    def speak(self, text: str, end: int) -> None:
        """Tells the segment's text to the next one; an empty one leaves what was said before."""
        self.after.set_result(_Spoken(text, end) if text else self._earlier)

    def fall_silent(self) -> None:
        """The segment failed, and with it its session: who waits is not left waiting."""
        if not self.after.done():
            self.after.set_result(self._earlier)


class Carry:
    """The turns of one session: each channel's segments one after the other, by the audio's clock (law 4).

    With `ttl_s` 0 nothing is carried, and no segment waits for another.
    """

    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        self._last: dict[int, asyncio.Future[_Spoken]] = {}

    def turn(self, segment: Segment) -> Turn | None:
        """The next segment of a channel, in the order in which they close; None where nothing is carried."""
        if not self.ttl_s:
            return None
        turn = Turn(segment, self._last.get(segment.channel), self.ttl_s)
        self._last[segment.channel] = turn.after
        return turn
