"""Sessions that move between gateways: who may go on with one, and how it is made again from the log."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from secrets import compare_digest
from typing import NoReturn

from streamscribe.core.errors import BadRequest, BusUnavailable, InternalError, SessionNotFound, StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import Resume
from streamscribe.core.records import SessionOpened
from streamscribe.core.session_io import SessionIdentity, SessionLimits
from streamscribe.core.session_mark import SessionMark
from streamscribe.core.session_past import SessionPast
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.marks import Marks
from streamscribe.gateway.register import Admit, Moved
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.gateway.unclaimed import Unclaimed
from streamscribe.ports import MovingBus, Place, SessionStore, Tenant, Ticket
from streamscribe.wire.session_mark import decode_mark

MAX_MOVES = 128
"""Of one session between two marks: its ticket names all the places that it has had, those too where it could not be
had in the end. Who tries for the longest resume window comes near it."""

MAX_TRIES = 3
"""To take a session whose gateway tells its place at the same time."""

AGAIN_S = 0.1
"""Between two tries at a store that is away, by a gateway that is about to end."""

_NO_DIGEST = bytes(32)


class Mover:
    """The register of a gateway among others: seats in the store, tickets for clients that come back elsewhere.

    A session's ticket is in the store before its first record is published, so that nothing is acknowledged that could
    not be gone on with. While the store is away sessions begin without, and their tickets follow when it is back.
    """

    def __init__(
        self,
        seats: SeatKeeper,
        store: SessionStore,
        bus: MovingBus,
        gateway: str,
        *,
        every_s: float,
        behind_s: float,
    ) -> None:
        """`gateway` is this gateway's name. Every `every_s` seconds the store is told what it lacks; clients that come
        back may lack results of the last `behind_s`."""
        self._seats = seats
        seats.no_ticket = self._lacks_ticket
        self._store = store
        self._bus = bus
        self._gateway = gateway
        self._every_s = every_s
        self._marks = Marks(bus, behind_s)
        self._tickets: dict[SessionId, Ticket] = {}
        self._late: set[SessionId] = set()
        self._handed: Counter[SessionId] = Counter()
        self._over: dict[SessionId, LiveSession] = {}
        self._unclaimed = Unclaimed(bus, store, every_s)
        self.taken = 0
        """Sessions that have come here from other gateways."""

    def spoke(self, live: LiveSession) -> None:
        """Takes a seat, soon."""
        self._seats.spoke(live)

    def over(self, live: LiveSession) -> None:
        """Frees the seat, soon; the ticket goes with it, once it is there if it is on its way."""
        self._forget(live)
        if live.bus_id in self._handed:
            self._over[live.bus_id] = live
        else:
            self._seats.over(live)

    def left(self, live: LiveSession) -> None:
        """Keeps the seat no longer, which is the next gateway's now."""
        self._forget(live)
        self._seats.left(live)
        self._bus.let_go(live.bus_id)

    async def began(self, live: LiveSession, opened: SessionOpened) -> None:
        """Hands a ticket in; `opened` is about to be published."""
        digest = _digest(live.resume_token)
        ticket = Ticket(live.bus_id, live.session_id, self._gateway, digest, opened, (self._bus.here(0),))
        self._tickets[live.bus_id] = ticket
        self._late.add(live.bus_id)
        self._marks.begin(live)
        self._unclaimed.begin(live)
        with suppress(StoreUnavailable):
            await self._hand_in(live.bus_id)
        if live.broken:  # before the log had it: whoever found the ticket would begin it anew
            self.over(live)

    def heard(self, live: LiveSession) -> None:
        """May mark where it stands."""
        self._marks.heard(live)

    async def run(self) -> NoReturn:
        """Hands in the tickets that are late, or that the store has lost, and moves places on; until cancelled.

        Tells sessions that wait in vain for a worker, which needs the store.
        """
        while True:
            await asyncio.sleep(self._every_s)
            await self._unclaimed.look()
            with suppress(StoreUnavailable):
                await self._hand_in_late()
                await self._settle_places()

    def can_be_found(self, live: LiveSession) -> bool:
        """Whether its ticket is in the store."""
        return live.bus_id in self._tickets and live.bus_id not in self._late

    async def make_findable(self) -> None:
        """Hands in the tickets that are late, however often it has to try."""
        while self._late:
            try:
                await self._hand_in_late()
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_S)

    async def _hand_in_late(self) -> None:
        for session_id in list(self._late):
            await self._hand_in(session_id)

    async def _hand_in(self, session_id: SessionId) -> None:
        ticket = self._tickets.get(session_id)
        if ticket is not None:
            self._handed[session_id] += 1
            try:
                await self._store.hand_in(ticket)
            finally:
                self._handed[session_id] -= 1
                if not self._handed[session_id]:
                    del self._handed[session_id]
                    if (live := self._over.pop(session_id, None)) is not None:
                        self._seats.over(live)
        if self._tickets.get(session_id) is ticket:  # else its places have moved on meanwhile
            self._late.discard(session_id)

    def _lacks_ticket(self, live: LiveSession) -> None:
        """The store has come back without: where it has begun, its ticket is handed in again, as it is now."""
        if live.bus_id in self._tickets:
            self._late.add(live.bus_id)

    async def _settle_places(self) -> None:
        for session_id, place in self._marks.ripe():
            before = self._tickets.get(session_id)
            if before is None or await self._is_settled(before, place):
                self._marks.settled(session_id, place)

    async def _is_settled(self, before: Ticket, place: Place) -> bool:
        """Moves the session's first place on; False where that is to be tried again. Raises StoreUnavailable."""
        session_id, now = before.session_id, replace(before, places=(place,))
        if session_id in self._late:  # is handed in so
            self._tickets[session_id] = now
            return True
        known: Ticket | None = now
        try:
            if not await self._store.settle_places(now, before.places):  # a call that failed was done, or it has moved
                known = await self._store.ticket(session_id)
        except InternalError:  # nobody can read what the store has: this session cannot move, all others can
            return True
        if known is not None and known.gateway != self._gateway:
            return True
        if self._tickets.get(session_id) is before:
            self._tickets[session_id] = known or now
            if known is None:  # the store has lost it
                self._late.add(session_id)
        return known is None or known.places == now.places

    def _forget(self, live: LiveSession) -> None:
        self._marks.forget(live.bus_id)
        self._unclaimed.forget(live.bus_id)
        self._tickets.pop(live.bus_id, None)
        self._late.discard(live.bus_id)

    async def has_moved(self, live: LiveSession) -> bool:
        """Whether another gateway has the session by now; not to be known while the store is away, or where nobody can
        read its ticket."""
        try:
            ticket = await self._store.ticket(live.bus_id)
        except (StoreUnavailable, InternalError):
            return False
        return ticket is not None and ticket.gateway != self._gateway

    async def take_over(self, tenant: Tenant, message: Resume, limits: SessionLimits, admit: Admit) -> Moved:
        """Brings a session here from another gateway, if `message` proves the right to it.

        Raises SessionNotFound for whatever does not fit, in the same way; StoreUnavailable, BusUnavailable. What the
        ticket tells costs the session nothing; what only the log tells is known when it has moved.
        """
        admit(await self._proved(tenant, message))
        ticket = await self._moved(tenant, message)
        identity = SessionIdentity(
            session_id=ticket.called,
            tenant_id=tenant.tenant_id,
            trace_id=ticket.opened.trace_id,
            resume_token=message.resume_token,
            durability=self._bus.durability,
        )
        past = SessionPast(identity, limits, _mark_of(ticket))
        await self._bus.take_over(ticket, past)
        if past.outcome is None and (past.uplink.abandoned or past.uplink.next_index == 0):
            self._bus.let_go(ticket.session_id)
            raise SessionNotFound
        if past.outcome is not None and message.last_acked_sequence is not None:  # all its audio was heard
            past.uplink.next_sequence = max(past.uplink.next_sequence or 0, message.last_acked_sequence + 1)
        return Moved(identity, ticket, past)

    def took_over(self, live: LiveSession, moved: Moved) -> None:
        """The session is here: keeps its seat, and hears its worker.

        One that is over at once, as nobody may come back so late, has no seat and no ticket any more.
        """
        self._seats.took_over(live)
        done = moved.past.outcome is not None
        if done:  # its worker says nothing more
            self._bus.let_go(live.bus_id)
        if live.over:  # where it was not done, its abandonment, which is on its way, ends it on the bus
            return
        self.taken += 1
        self._tickets[live.bus_id] = moved.ticket
        if not done:
            self._bus.go_on(live.bus_id, moved.past)
            self._marks.begin(live)

    async def _moved(self, tenant: Tenant, message: Resume) -> Ticket:
        """The session's ticket, as this gateway's."""
        for _ in range(MAX_TRIES):
            ticket = await self._proved(tenant, message)
            here = self._bus.here(ticket.places[-1].generation + 1)
            ticket = replace(ticket, gateway=self._gateway, places=(*ticket.places, here))
            if await self._is_moved(ticket):
                return ticket
        raise BusUnavailable("the session is moving already", retry_after_s=1.0)

    async def _is_moved(self, ticket: Ticket) -> bool:
        """Whether the store says that the session is this gateway's. From then on workers may tell it so: where one has
        just taken the session over, before anything else is done here."""
        expected, moved = self._bus.expect(ticket), False
        try:
            moved = await self._store.move(ticket)
        finally:
            if expected and not moved:
                self._bus.let_go(ticket.session_id)
        return moved

    async def _proved(self, tenant: Tenant, message: Resume) -> Ticket:
        ticket = None
        with suppress(ValueError):  # a token that none of ours wrote
            ticket = await self._store.ticket(SessionId(message.resume_token.partition(".")[0]))
        digest = _NO_DIGEST if ticket is None else ticket.token_digest
        proved = compare_digest(_digest(message.resume_token), digest)
        if ticket is None or not proved:
            raise SessionNotFound
        if (ticket.opened.tenant_id, ticket.called) != (tenant.tenant_id, message.session_id):
            raise SessionNotFound
        if len(ticket.places) > MAX_MOVES or message.last_version < _forgotten_version(ticket):
            raise SessionNotFound
        return ticket


def _mark_of(ticket: Ticket) -> SessionMark | None:
    mark = ticket.places[0].mark
    try:
        return decode_mark(mark) if mark else None
    except BadRequest:
        raise InternalError("the store has the session's mark in a form that is not known here") from None


def _forgotten_version(ticket: Ticket) -> int:
    """Texts of results up to this one no gateway has that reads the session from its mark."""
    mark = _mark_of(ticket)
    return 0 if mark is None else mark.downlink.results.last_version


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
