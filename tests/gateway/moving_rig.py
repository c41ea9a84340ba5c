"""Gateways of one store in memory, and a log that a test may hold up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import BusUnavailable, InternalError, StoreUnavailable, StreamScribeError
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.messages import Audio, Connected, Resume
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, Finished, Recognised
from streamscribe.core.session_past import SessionPast
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Place, Seat, Ticket
from streamscribe.settings import LimitSettings
from streamscribe.store.memory_sessions import MemorySessions
from tests.gateway.rig import EchoWorker, RecordingSink, result
from tests.gateway.test_hub import ACME, CHUNK

OPTIONS = SessionOptions(sequenced=True)


class LogBus(MemoryBus):
    """A bus of one process that says it has a log: what a session's past is in it, a test tells."""

    durability = "log"

    def __init__(self) -> None:
        super().__init__(0.5)
        self.broken = False
        self.claimed = True
        self.open = asyncio.Event()
        self.open.set()
        self.waited = False
        self.past: Finished | None = None
        self.marks_each = 1_000
        self.marked: Counter[SessionId] = Counter()
        self.gone: list[SessionId] = []

    def here(self, generation: int) -> Place:
        return Place(0, 0, generation)

    def stand(self, session_id: SessionId, mark: bytes) -> Place | None:
        if mark and self.marked[session_id] == self.marks_each:
            return None
        self.marked[session_id] += bool(mark)
        return Place(0, 0, 0, mark, LeaseEpoch(1) if self.claimed else None)

    def expect(self, ticket: Ticket) -> bool:
        return ticket.session_id not in self.gone

    async def take_over(self, ticket: Ticket, past: SessionPast) -> None:
        if self.broken:
            raise BusUnavailable
        self.waited = True
        await self.open.wait()
        self.gone = [one for one in self.gone if one != ticket.session_id]
        await self.publish(ticket.opened)
        past.uplink.take(ticket.opened, 0)
        past.uplink.take(AudioChunk(ticket.session_id, 1, 0, CHUNK), 0)
        past.hear(Recognised(ticket.session_id, result(1, 1, "word", final=True)))
        if self.past is not None:
            past.hear(replace(self.past, session_id=ticket.session_id))

    def go_on(self, session_id: SessionId, past: SessionPast) -> None:
        assert session_id not in self.gone

    def let_go(self, session_id: SessionId) -> None:
        self.gone.append(session_id)


class Store(MemorySessions):
    """Is away where a test says so, and slow at tickets, to take them and to give them, and at quotas.

    The next calls to settle places fail with `refusing`, those that were done too where it is `late`. Where it is
    `forgetful` it has lost the ticket by the next one. Nobody can read the tickets of those that are `unreadable`.
    """

    def __init__(self) -> None:
        super().__init__(lease_ttl_s=2, seat_ttl_s=15, keep_s=600)
        self.away = False
        self.open = asyncio.Event()
        self.open.set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.admits = asyncio.Event()
        self.admits.set()
        self.asked = 0
        self.refusing: list[StreamScribeError] = []
        self.late = self.forgetful = False
        self.unreadable: set[SessionId] = set()
        self.settled = asyncio.Event()

    async def settle_places(self, ticket: Ticket, before: tuple[Place, ...]) -> bool:
        if self.refusing and not self.late:
            raise self.refusing.pop()
        if self.forgetful:
            self._known[ticket.session_id].ticket, self.forgetful = None, False
        done = await super().settle_places(ticket, before)
        if self.refusing:
            raise self.refusing.pop()
        self.settled.set()
        return done

    async def check(self) -> None:
        if self.away:
            raise StoreUnavailable

    async def enter(self, seat: Seat, *, max_sessions: int, max_per_minute: int | None = None) -> None:
        await self.admits.wait()
        await super().enter(seat, max_sessions=max_sessions, max_per_minute=max_per_minute)

    async def hand_in(self, ticket: Ticket) -> None:
        if self.away:
            raise StoreUnavailable
        await self.open.wait()
        await super().hand_in(ticket)

    async def ticket(self, session_id: SessionId) -> Ticket | None:
        found = await super().ticket(session_id)
        self.asked += 1
        await self.answers.wait()
        if self.away:
            raise StoreUnavailable
        if session_id in self.unreadable:
            raise InternalError("the store has the session's ticket in a form that is not known here")
        return found

    def knows(self, session_id: SessionId) -> bool:
        return session_id in self._known


@dataclass
class Site:
    """One gateway of several."""

    hub: Hub
    mover: Mover
    seats: SeatKeeper
    bus: LogBus
    worker: EchoWorker

    async def begun(self, sink: RecordingSink) -> LiveSession:
        live = self.hub.open(ACME, OPTIONS, sink, resumable=True)
        await live.receive(Audio(CHUNK, 0))
        return live


@asynccontextmanager
async def site(
    store: Store, name: str, limits: LimitSettings | None = None, behind_s: float = 60.0
) -> AsyncIterator[Site]:
    bus = LogBus()
    seats = SeatKeeper(store, name, 5.0, 1000)
    mover = Mover(seats, store, bus, name, every_s=0.01, behind_s=behind_s)
    hub = Hub(bus, limits or LimitSettings(), Metrics(), OpenDoor(), mover)
    running = asyncio.ensure_future(mover.run())
    yield Site(hub, mover, seats, bus, EchoWorker(bus))
    hub.check_integrity()
    await hub.close()
    await seats.close()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await bus.close()


def resume_of(sink: RecordingSink, last_version: int = 1) -> Resume:
    greeting = sink.of(Connected)[0]
    return Resume(greeting.session_id, greeting.resume_token, last_version, 0)
