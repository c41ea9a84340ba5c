"""Time-outs of what a client is to do, by a gateway that may have stood still: no fault of the client's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.core.session_timers import AWAKE_S, LATE_S


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, which it raises TimeoutError as. One that the loop comes to late is put off by `AWAKE_S`:
    what was done in time may lie in a socket that nobody could look at."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as timeout:

        def due(at: float) -> None:
            nonlocal timer
            now = loop.time()
            if now - at <= LATE_S:
                timeout.reschedule(now)
            else:
                timer = loop.call_at(now + AWAKE_S, due, now + AWAKE_S)

        begun_at = loop.time()
        timer = loop.call_at(begun_at + seconds, due, begun_at + seconds)
        try:
            yield
        finally:
            timer.cancel()
