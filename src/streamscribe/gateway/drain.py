"""The end of a gateway: no new sessions, clients told to move, finals delivered, then the rest closed.

uvicorn closes every WebSocket at once when it shuts down, so the drain runs before the listener is left.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from streamscribe.gateway.door import going_down
from streamscribe.gateway.hub import Hub
from streamscribe.observe.logs import get_logger
from streamscribe.settings import GatewaySettings

_log = get_logger(__name__)

FINALS_SHARE = 0.2
"""Of the drain's time, at its end: for the finals of sessions whose clients went on, as most can't be told to go."""


@asynccontextmanager
async def stop_signals() -> AsyncIterator[asyncio.Event]:
    """An event that SIGTERM or SIGINT sets; a second signal of either kind kills the process at once, also when the
    context is left: what ends with the event loop may take a while, as threads do, and no traceback tells of it."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def begin() -> None:
        stop.set()
        for number in before:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # not Python's, which would unwind the drain

    for number in before:
        loop.add_signal_handler(number, begin)
    try:
        yield stop
    finally:
        if not stop.is_set():
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


async def done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether `work` ended before the stop came; else it is cancelled. Raises what it raises."""
    stopping, working = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(work)
    try:
        await asyncio.wait((stopping, working), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        await working
        return True
    finally:  # also where who waits is cancelled: it would fail later, and nobody be told
        stopping.cancel()
        working.cancel()


async def drain(hub: Hub, gateway: GatewaySettings) -> None:
    """Returns when no session is open, `drain_timeout_s` after the go-away at the latest.

    Not ready at once; new sessions are refused from now on; `drain_grace_s` later clients are told to go away. What
    a client sends until shortly before the deadline gets its finals; a session that can go on at another gateway is
    left to it then.
    """
    hub.draining = True
    _log.info("draining", sessions=len(hub), deadline_s=gateway.drain_timeout_s)
    await asyncio.sleep(gateway.drain_grace_s)
    hub.go_away(gateway.drain_timeout_s)
    deadline = asyncio.get_running_loop().time() + gateway.drain_timeout_s
    finals_s = FINALS_SHARE * gateway.drain_timeout_s
    if not await _emptied(hub, deadline - finals_s):
        _log.warning("sessions closed at the drain deadline", sessions=len(hub))
        await hub.let_all_go(finals_s / 2)
        hub.stop_all(going_down())
        if not await _emptied(hub, deadline):
            _log.warning("sessions closed without their last finals", sessions=len(hub))
            hub.kill_all(going_down())
    _log.info("drained")


async def _emptied(hub: Hub, until: float) -> bool:
    """Whether no session is open before the time has come."""
    try:
        async with asyncio.timeout_at(until):
            await hub.wait_empty()
    except TimeoutError:
        return False
    return True
