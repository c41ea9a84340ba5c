"""Time-outs of what a client is to do, by a gateway that may have stood still: no fault of the client's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.core.session_timers import AWAKE_S, LATE_S, MAX_PUT_OFF


class Deadline:
    """When something is to be done, perhaps in several waits. For one event loop."""

    def __init__(self, seconds: float) -> None:
        """From now."""
        self._now = asyncio.get_running_loop().time
        self.at = self._now() + seconds
        """In the loop's time."""
        self._times_put_off = 0

    def has_passed(self) -> bool:
        """Whether it is over. Asked long after it, it is put off by `AWAKE_S`, `MAX_PUT_OFF` times at most: what was
        done in time may lie in a socket that nobody could look at."""
        late_s = self._now() - self.at
        if late_s <= LATE_S or self._times_put_off == MAX_PUT_OFF:
            return late_s >= 0
        self._times_put_off += 1
        self.at = self._now() + AWAKE_S
        return False


@asynccontextmanager
async def before(*deadlines: Deadline) -> AsyncIterator[None]:
    """As `asyncio.timeout_at` the first of them, which it raises TimeoutError as."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as timeout:

        def arm() -> asyncio.TimerHandle:
            return loop.call_at(min(deadline.at for deadline in deadlines), look)

        def look() -> None:
            nonlocal timer
            if any(deadline.has_passed() for deadline in deadlines):
                timeout.reschedule(loop.time())
            else:
                timer = arm()

        timer = arm()
        try:
            yield
        finally:
            timer.cancel()


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """As `before` a deadline so many seconds from now."""
    async with before(Deadline(seconds)):
        yield
