"""What was said before a segment, for models that read on from there."""

import asyncio
from dataclasses import dataclass

from streamscribe.worker.segment import Segment, seconds


@dataclass(frozen=True, slots=True)
class Spoken:
    """A channel's newest text, as it was heard, and what of it no sentence end closes; it ended at sample `end`."""

    text: str = ""
    unfinished: str = ""
    end: int = 0


NOTHING = Spoken()


class Turn:
    """A segment's place in its channel's row: it may wait for what came before, and must `speak` or `fall_silent`."""

    def __init__(self, segment: Segment, before: asyncio.Future[Spoken] | None, ttl_s: float) -> None:
        self.after: asyncio.Future[Spoken] = asyncio.get_running_loop().create_future()
        self._segment = segment
        self._before = before
        self._ttl_s = ttl_s

    async def earlier(self) -> Spoken:
        """What was said last on the channel, if that ended at most so long before the segment."""
        former = await self._former()
        gap_s = seconds(self._segment.start - former.end)
        return former if gap_s <= self._ttl_s else NOTHING

    async def speak(self, text: str, unfinished: str, end: int) -> None:
        """Tells the segment's text to the next one; an empty one leaves what was said before."""
        spoken = Spoken(text, unfinished, end) if text else await self._former()
        self.after.set_result(spoken)

    def fall_silent(self) -> None:
        """The segment failed, and with it its session: who waits is not left waiting."""
        if not self.after.done():
            self.after.set_result(NOTHING)

    async def _former(self) -> Spoken:
        return NOTHING if self._before is None else await asyncio.shield(self._before)


class Carry:
    """The turns of one session and pass: each channel's segments in the order in which they close (law 4).

    With `ttl_s` 0 nothing is carried, and no segment waits for another.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._last: dict[int, asyncio.Future[Spoken]] = {}

    def turn(self, segment: Segment) -> Turn | None:
        """The next segment of a channel; None where nothing is carried."""
        if not self._ttl_s:
            return None
        turn = Turn(segment, self._last.get(segment.channel), self._ttl_s)
        self._last[segment.channel] = turn.after
        return turn
