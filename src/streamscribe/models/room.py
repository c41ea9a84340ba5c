"""Those who wait until a stage has room for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from streamscribe.core.batching import Priority
from streamscribe.core.errors import Overloaded

Entered = TypeVar("Entered")


class Room:
    """Lets in one after the other whoever waits for room in a stage: tenants in turn, each one's in order of coming.

    So one that asks for ten times as much as there is room for keeps another waiting for one place only.

    Only the first in line tries, each time that something has left the stage, and the next one once it is in: nobody
    asks again and again, and no crowd wakes for one place. Files and drafts, which may fill half of the room, have a
    line of their own, so that they keep nobody out who may have the other half.

    For any number of event loops; `freed` from any thread. A line is bounded by the number of sessions.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._lines = _Line(), _Line()

    async def enter(self, priority: Priority, attempt: Callable[[], Entered], tenant: Hashable = None) -> Entered:
        """What `attempt` gives, which raises Overloaded while there is no room; whatever else it raises is raised."""
        line = self._lines[priority >= Priority.BULK]
        if not line:
            with suppress(Overloaded):
                return attempt()
        waiter = _Waiter(asyncio.get_running_loop())
        with self._lock:
            line.join(tenant, waiter)
            if line.first is waiter:
                waiter.turn.set()
        try:
            while True:
                await waiter.turn.wait()
                waiter.turn.clear()  # before the attempt: what leaves during it calls again
                with suppress(Overloaded):
                    return attempt()
        finally:
            with self._lock:
                line.leave(tenant, waiter)
            self.freed()

    def freed(self) -> None:
        """Something has left the stage: it may have room for the first in line, or nothing more to wait for."""
        if not any(self._lines):
            return
        with self._lock:
            first = [line.first for line in self._lines if line]
        for waiter in first:
            waiter.call()


class _Line:
    """Who waits, by tenant; whose turn it is comes first. No tenant is kept for whom nobody waits.

    Bounded by the sessions that there are: each reads no more audio while it waits.
    """

    def __init__(self) -> None:
        self._waiters: dict[Hashable, deque[_Waiter]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiters)

    @property
    def first(self) -> "_Waiter":
        return next(iter(self._waiters.values()))[0]

    def join(self, tenant: Hashable, waiter: "_Waiter") -> None:
        self._waiters.setdefault(tenant, deque()).append(waiter)  # bounded by the number of sessions

    def leave(self, tenant: Hashable, waiter: "_Waiter") -> None:
        """The next tenant's turn comes, if it was this one's."""
        waiters = self._waiters[tenant]
        had_its_turn = self.first is waiter
        waiters.remove(waiter)
        if had_its_turn or not waiters:
            del self._waiters[tenant]
            if waiters:
                self._waiters[tenant] = waiters


class _Waiter:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turn = asyncio.Event()
        self._loop = loop

    def call(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.turn.set)
        except RuntimeError:
            return  # that loop is closed: nobody waits there
