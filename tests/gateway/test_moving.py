"""A gateway's books of sessions that move, over a store in memory and a log that a test may hold up."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace

import pytest

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import BusUnavailable, SessionNotFound, StoreUnavailable
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.messages import Audio, Connected, ErrorSent, Resume, Resumed
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, Finished, Recognised
from streamscribe.core.session_past import SessionPast
from streamscribe.gateway import unclaimed
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Place, Ticket
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
        self.past: Finished | None = None
        self.gone: list[SessionId] = []

    def here(self, generation: int) -> Place:
        return Place(0, 0, generation)

    def stand(self, session_id: SessionId, mark: bytes) -> Place | None:
        return Place(0, 0, 0, mark, LeaseEpoch(1) if self.claimed else None)

    async def take_over(self, ticket: Ticket, past: SessionPast) -> None:
        if self.broken:
            raise BusUnavailable
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
    """Is away where a test says so, and slow at tickets."""

    def __init__(self) -> None:
        super().__init__(lease_ttl_s=2, seat_ttl_s=15, keep_s=600)
        self.away = False
        self.open = asyncio.Event()
        self.open.set()

    async def check(self) -> None:
        if self.away:
            raise StoreUnavailable

    async def hand_in(self, ticket: Ticket) -> None:
        if self.away:
            raise StoreUnavailable
        await self.open.wait()
        await super().hand_in(ticket)

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
async def site(store: Store, name: str) -> AsyncIterator[Site]:
    bus = LogBus()
    seats = SeatKeeper(store, name, 5.0, 1000)
    mover = Mover(seats, store, bus, name, every_s=0.01, behind_s=60.0)
    hub = Hub(bus, LimitSettings(), Metrics(), OpenDoor(), mover)
    running = asyncio.ensure_future(mover.run())
    yield Site(hub, mover, seats, bus, EchoWorker(bus))
    hub.check_integrity()
    await hub.close()
    await seats.close()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await bus.close()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def first(store: Store) -> AsyncIterator[Site]:
    async with site(store, "first") as made:
        yield made


@pytest.fixture
async def second(store: Store) -> AsyncIterator[Site]:
    async with site(store, "second") as made:
        yield made


def resume_of(sink: RecordingSink, last_version: int = 1) -> Resume:
    greeting = sink.of(Connected)[0]
    return Resume(greeting.session_id, greeting.resume_token, last_version, 0)


@contextmanager
def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(unclaimed, "PATIENCE_S", seconds)
        yield


async def test_a_session_that_comes_is_counted_and_has_its_seat_and_ticket_here(
    store: Store, first: Site, second: Site
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Resumed)
    assert (second.mover.taken, first.mover.taken) == (1, 0)
    ticket = await store.ticket(live.bus_id)
    assert ticket is not None
    assert ticket.gateway == "second"


async def test_the_log_tells_of_a_session_that_comes_by_its_own_trace_only(
    first: Site, second: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    sink, fresh = RecordingSink(), RecordingSink()
    await first.begun(sink)
    second.hub.withdraw(second.hub.open(ACME, OPTIONS, fresh, resumable=True))  # of a client that then says `resume`
    await second.hub.resume_anywhere(ACME, resume_of(sink), RecordingSink())
    told = capsys.readouterr().out
    assert "session opened" in told
    assert sink.of(Connected)[0].trace_id in told
    assert fresh.of(Connected)[0].trace_id not in told


@pytest.mark.parametrize("ended", [False, True])
async def test_a_session_that_is_over_as_it_comes_leaves_no_seat_no_ticket_and_nothing_in_the_books(
    store: Store, first: Site, second: Site, ended: bool
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    await first.seats.close()
    second.bus.past = Finished(live.bus_id, audio_ms=10) if ended else None
    await second.hub.resume_anywhere(ACME, resume_of(sink, last_version=9), again)
    assert [message.error.code for message in again.of(ErrorSent)] == ["session_not_found"]
    await second.seats.close()
    await asyncio.sleep(0)
    assert not store.knows(live.bus_id)
    assert len(second.hub) == second.mover.taken == 0
    assert live.bus_id not in second.mover._tickets
    assert second.worker.abandoned() == ([] if ended else [live.bus_id])
    assert second.bus.gone == ([live.bus_id] if ended else [])


async def test_a_session_that_ends_while_its_ticket_is_on_its_way_leaves_none_behind(store: Store, first: Site) -> None:
    store.open.clear()
    sink = RecordingSink()
    live = first.hub.open(ACME, OPTIONS, sink, resumable=True)
    beginning = asyncio.ensure_future(live.receive(Audio(CHUNK, 0)))
    await asyncio.sleep(0)
    live.kill(SessionNotFound())
    await first.seats.close()
    store.open.set()
    await beginning
    await first.seats.close()
    assert not store.knows(live.bus_id)


async def test_a_session_that_could_not_be_had_for_long_is_had_at_last(store: Store, first: Site, second: Site) -> None:
    sink, again = RecordingSink(), RecordingSink()
    await first.begun(sink)
    second.bus.broken = True
    for _ in range(40):
        with pytest.raises(BusUnavailable):
            await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    second.bus.broken = False
    await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Resumed)


async def test_a_session_that_no_worker_takes_as_the_store_is_away_is_told_so_and_one_that_a_worker_has_goes_on(
    store: Store, first: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes_on = RecordingSink(), RecordingSink()
    with patience(monkeypatch, 0.05):
        live = await first.begun(goes_on)
        while live.bus_id in first.mover._unclaimed._sessions:
            await asyncio.sleep(0.01)
        first.bus.claimed = False
        store.away = True
        await first.begun(waits)
        while not first.worker.abandoned():
            await asyncio.sleep(0.01)
    assert [message.error.code for message in waits.of(ErrorSent)] == ["store_unavailable"]
    assert not goes_on.closed


async def test_a_session_that_no_worker_takes_waits_on_where_the_store_is_there(
    store: Store, first: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = RecordingSink()
    with patience(monkeypatch, 0.0):
        first.bus.claimed = False
        await first.begun(sink)
        for _ in range(10):
            await first.mover._unclaimed.look()
    assert not sink.closed
