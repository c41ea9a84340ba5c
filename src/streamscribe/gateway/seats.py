"""Seats of this gateway's sessions in the store that gateways share: quotas of tenants over the whole cluster."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

from streamscribe.core.errors import QuotaExceeded, SessionSuperseded, StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.gateway.live_session import LiveSession
from streamscribe.observe.logs import get_logger
from streamscribe.ports import Kept, Seat, SessionStore

_log = get_logger(__name__)


class SeatKeeper:
    """Takes a seat for each session that this gateway has let in, and keeps it while the session lasts.

    A session is let in at once, by the gateway's own books, and ends with QuotaExceeded where the cluster's say so: so
    the store costs nobody time, and one that is kept to tell its client so has no seat. While the store cannot be used,
    the gateway's own quotas hold alone; seats are taken when it is back. For one event loop.
    """

    def __init__(self, store: SessionStore, gateway: str, keep_every_s: float, max_new_per_min: int) -> None:
        """`gateway` is this gateway's name; `max_new_per_min` is for tenants whose file names no number."""
        self._store = store
        self._gateway = gateway
        self._keep_every_s = keep_every_s
        self._max_new_per_min = max_new_per_min
        self.no_ticket: Callable[[LiveSession], None] = lambda live: None
        """Hears of sessions that the store has, but no ticket of."""
        self._entering: set[SessionId] = set()
        self._seated: dict[SessionId, LiveSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def spoke(self, live: LiveSession) -> None:
        """Takes a seat, soon: not before its client has spoken, for who resumes another session needs none."""
        self._entering.add(live.bus_id)
        self._spawn(self._enter(live))

    def over(self, live: LiveSession) -> None:
        """Frees the seat, soon, and with it what else the store has of the session."""
        self._seated.pop(live.bus_id, None)
        if live.spoke:
            self._spawn(self._leave(live.seat(self._gateway)))

    def left(self, live: LiveSession) -> None:
        """Keeps the seat no longer; it is another gateway's."""
        self._entering.discard(live.bus_id)
        self._seated.pop(live.bus_id, None)

    def took_over(self, live: LiveSession) -> None:
        """Keeps the seat that another gateway took; one that is over already has freed it."""
        if not live.over:
            self._seated[live.bus_id] = live

    async def run(self) -> NoReturn:
        """Keeps all seats, until cancelled."""
        while True:
            await asyncio.sleep(self._keep_every_s)
            await self.keep()

    async def keep(self) -> None:
        """Keeps all seats once; a session that another gateway has by now ends here.

        Who has not entered, or was refused, is left out: a seat that is kept is asked for no quota.
        """
        sessions = list(self._seated.values())
        if not sessions:
            return
        try:
            kept = await self._store.keep([live.seat(self._gateway) for live in sessions])
        except StoreUnavailable:  # the next time
            return
        for live, what in zip(sessions, kept, strict=True):
            if what is Kept.LOST:
                live.let_go(SessionSuperseded())
            elif what is Kept.NO_TICKET:
                self.no_ticket(live)

    async def close(self) -> None:
        """Waits for what is on its way to the store."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    async def _enter(self, live: LiveSession) -> None:
        tenant = live.tenant
        bounds = (tenant.max_sessions, tenant.max_new_sessions_per_min or self._max_new_per_min)
        try:
            await self._store.enter(live.seat(self._gateway), max_sessions=bounds[0], max_per_minute=bounds[1])
        except QuotaExceeded as error:
            self._entering.discard(live.bus_id)
            live.break_down(error)
            return
        except StoreUnavailable:  # `keep` takes it
            pass
        if live.bus_id not in self._entering:  # it is another gateway's
            return
        self._entering.discard(live.bus_id)
        if live.over:  # it was short
            await self._leave(live.seat(self._gateway))
        else:
            self._seated[live.bus_id] = live

    async def _leave(self, seat: Seat) -> None:
        with suppress(StoreUnavailable):  # the seat ends by itself
            await self._store.leave(seat)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a seat was not kept", exc_info=error)
