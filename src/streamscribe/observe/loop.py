"""How late the event loop runs: the first thing to look at when everything is slow at once."""

import asyncio
from collections.abc import Callable

PROBE_EVERY_S = 0.25


async def probe_event_loop(observe: Callable[[float], None]) -> None:
    """Measures until cancelled; `observe` gets seconds of lateness, four times a second."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + PROBE_EVERY_S
        await asyncio.sleep(PROBE_EVERY_S)
        observe(max(0.0, loop.time() - due))
