"""A gateway's books of sessions that move, over a store in memory and a log that a test may hold up."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace

import pytest

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import BusUnavailable, LeaseLost, SessionNotFound, SessionSuperseded, StoreUnavailable
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.messages import Audio, Closed, Connected, ErrorSent, Resume, Resumed
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
    """Is away where a test says so, and slow at tickets, to take them and to give them."""

    def __init__(self) -> None:
        super().__init__(lease_ttl_s=2, seat_ttl_s=15, keep_s=600)
        self.away = False
        self.open = asyncio.Event()
        self.open.set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0

    async def check(self) -> None:
        if self.away:
            raise StoreUnavailable

    async def hand_in(self, ticket: Ticket) -> None:
        if self.away:
            raise StoreUnavailable
        await self.open.wait()
        await super().hand_in(ticket)

    async def ticket(self, session_id: SessionId) -> Ticket | None:
        found = await super().ticket(session_id)
        self.asked += 1
        await self.answers.wait()
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
async def site(store: Store, name: str, limits: LimitSettings | None = None) -> AsyncIterator[Site]:
    bus = LogBus()
    seats = SeatKeeper(store, name, 5.0, 1000)
    mover = Mover(seats, store, bus, name, every_s=0.01, behind_s=60.0)
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
    store: Store, first: Site, ended: bool
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    await first.seats.close()
    async with site(store, "second", LimitSettings(resume_window_s=0)) as second:
        second.bus.past = Finished(live.bus_id, audio_ms=10) if ended else None
        await second.hub.resume_anywhere(ACME, resume_of(sink), again)
        assert [message.error.code for message in again.of(ErrorSent)] == ["session_not_found"]
        await second.seats.close()
        await asyncio.sleep(0)
        assert not store.knows(live.bus_id)
        assert len(second.hub) == second.mover.taken == 0
        assert live.bus_id not in second.mover._tickets
        assert second.worker.abandoned() == ([] if ended else [live.bus_id])
        assert second.bus.gone == ([live.bus_id] if ended else [])


async def test_a_session_that_was_done_as_it_came_is_kept_for_its_client_and_not_on_the_bus(
    first: Site, second: Site
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    second.bus.past = Finished(live.bus_id, audio_ms=10)
    came = await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Closed)
    assert second.bus.gone == [live.bus_id]
    came.delivered()
    assert len(second.hub) == 0


def claiming(sink: RecordingSink, version: int, sequence: int) -> Resume:
    return replace(resume_of(sink), last_version=version, last_acked_sequence=sequence)


CLAIMS = [(9, 0), (-1, 0), (1, 7)]
"""A version and an ack of a client that has the token, and names what no server ever sent."""


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("connected", [True, False])
async def test_who_claims_what_was_never_sent_is_refused_alone(
    store: Store, first: Site, claim: tuple[int, int], connected: bool
) -> None:
    sink, newcomer, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    if not connected:
        live.detach()
    with pytest.raises(SessionNotFound):
        await first.hub.resume_anywhere(ACME, claiming(sink, *claim), newcomer)
    assert newcomer.messages == []
    assert not sink.closed
    assert live.connected == connected
    await first.hub.resume_anywhere(ACME, resume_of(sink), again)
    await live.receive(Audio(CHUNK, 1))
    assert again.of(Resumed)
    assert first.worker.chunks() == 2
    assert first.worker.abandoned() == []


@pytest.mark.parametrize("claim", CLAIMS)
async def test_a_session_that_comes_for_claims_that_are_refused_waits_here_for_its_client(
    store: Store, first: Site, second: Site, claim: tuple[int, int]
) -> None:
    sink, newcomer, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    with pytest.raises(SessionNotFound):
        await second.hub.resume_anywhere(ACME, claiming(sink, *claim), newcomer)
    assert newcomer.messages == []
    ticket = await store.ticket(live.bus_id)
    assert ticket is not None
    assert ticket.gateway == "second"
    await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Resumed)
    assert second.mover.taken == 1
    assert second.worker.abandoned() == []


async def asked(store: Store, times: int) -> None:
    """Returns when somebody waits for the store's answer."""
    while store.asked < times:
        await asyncio.sleep(0)


async def answered(store: Store, waiting: "asyncio.Future[LiveSession]") -> LiveSession:
    """The session, for whoever waited for the store."""
    store.answers.set()
    async with asyncio.timeout(5):
        return await waiting


async def test_a_session_that_is_let_go_while_it_is_resumed_comes_back(store: Store, first: Site) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    store.answers.clear()
    coming = asyncio.ensure_future(first.hub.resume_anywhere(ACME, resume_of(sink), again))
    await asked(store, 1)
    live.let_go(LeaseLost())
    assert await answered(store, coming) is first.hub.session(ACME.tenant_id, live.session_id)
    assert again.of(Resumed)
    assert not again.closed


async def test_a_session_that_moves_away_while_it_is_resumed_comes_back(
    store: Store, first: Site, second: Site
) -> None:
    sink, elsewhere, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    store.answers.clear()
    coming = asyncio.ensure_future(first.hub.resume_anywhere(ACME, resume_of(sink), again))
    await asked(store, 1)
    held, store.answers = store.answers, asyncio.Event()
    store.answers.set()
    await second.hub.resume_anywhere(ACME, resume_of(sink), elsewhere)
    live.let_go(SessionSuperseded())
    held.set()
    await coming
    assert again.of(Resumed)
    assert (first.mover.taken, second.mover.taken) == (1, 1)
    assert first.worker.abandoned() == second.worker.abandoned() == []


async def test_of_two_that_resume_a_session_while_it_is_let_go_each_is_served_and_it_lives(
    store: Store, first: Site
) -> None:
    sink, other, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    slow = store.answers = asyncio.Event()
    coming = asyncio.ensure_future(first.hub.resume_anywhere(ACME, resume_of(sink), again))
    await asked(store, 1)
    store.answers = asyncio.Event()
    store.answers.set()
    live.let_go(LeaseLost())
    back = await first.hub.resume_anywhere(ACME, resume_of(sink), other)
    slow.set()
    assert await coming is back
    assert again.of(Resumed)
    assert [message.error.code for message in other.of(ErrorSent)] == ["session_superseded"]
    assert first.worker.abandoned() == []
    assert first.mover.taken == 1


async def test_who_holds_a_name_and_has_said_nothing_yet_does_not_stand_in_the_way_of_the_session_of_that_name(
    first: Site, second: Site
) -> None:
    sink, silent, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    second.hub.open(ACME, OPTIONS, silent, session_id=live.session_id, resumable=True)
    await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Resumed)
    assert [message.error.code for message in silent.of(ErrorSent)] == ["session_superseded"]
    assert len(second.hub) == 1


async def test_a_session_that_has_begun_under_a_name_is_not_ended_by_another_of_that_name(
    first: Site, second: Site
) -> None:
    sink, begun, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    there = second.hub.open(ACME, OPTIONS, begun, session_id=live.session_id, resumable=True)
    await there.receive(Audio(CHUNK, 0))
    with pytest.raises(SessionNotFound):
        await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert not begun.closed
    assert not sink.closed


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
