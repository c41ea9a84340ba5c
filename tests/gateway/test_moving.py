"""A gateway's books of sessions that move, over a store in memory and a log that a test may hold up."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from streamscribe.core.errors import (
    BusUnavailable,
    LeaseLost,
    QuotaExceeded,
    SessionNotFound,
    SlowReader,
    StreamScribeError,
)
from streamscribe.core.messages import Audio, Closed, Connected, ErrorSent, GoAway, Resumed, ServerMessage
from streamscribe.core.records import Finished, Recognised
from streamscribe.gateway import leaving, unclaimed
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Ticket
from tests.gateway.moving_rig import OPTIONS, Site, Store, resume_of, site
from tests.gateway.rig import RecordingSink, result
from tests.gateway.test_hub import ACME, CHUNK


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


async def test_a_session_that_is_left_to_another_gateway_has_not_failed(first: Site) -> None:
    sink = RecordingSink()
    live = await first.begun(sink)
    with capture_logs() as lines:
        await first.hub.let_all_go(5.0)
    assert live.over
    assert [line["event"] for line in lines] == ["session left to another gateway"]
    assert isinstance(sink.error, LeaseLost)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_session_that_is_over_as_it_comes_leaves_no_seat_no_ticket_and_nothing_in_the_books(
    store: Store, first: Site, ended: bool
) -> None:
    class Deaf(RecordingSink):
        def send(self, message: ServerMessage) -> None:
            second.hub.kill_all(SlowReader())

    sink = RecordingSink()
    live = await first.begun(sink)
    await first.seats.close()
    async with site(store, "second") as second:
        second.bus.past = Finished(live.bus_id, audio_ms=10) if ended else None
        assert (await second.hub.resume_anywhere(ACME, resume_of(sink), Deaf())).over
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


@pytest.mark.parametrize("ends", [LiveSession.kill, LiveSession.break_down])
async def test_a_session_that_ends_while_its_ticket_is_on_its_way_leaves_none_behind_and_does_not_begin(
    store: Store, first: Site, second: Site, ends: Callable[[LiveSession, StreamScribeError], None]
) -> None:
    store.open.clear()
    sink = RecordingSink()
    live = first.hub.open(ACME, OPTIONS, sink, resumable=True)
    beginning = asyncio.ensure_future(live.receive(Audio(CHUNK, 0)))
    await asyncio.sleep(0)
    ends(live, QuotaExceeded())
    await first.seats.close()
    store.open.set()
    await beginning
    await first.seats.close()
    assert first.worker.opened() == []
    assert not store.knows(live.bus_id)
    with pytest.raises(SessionNotFound):
        await second.hub.resume_anywhere(ACME, resume_of(sink, last_version=0), RecordingSink())
    live.delivered()
    await first.seats.close()
    assert not store.knows(live.bus_id)


async def test_a_session_that_ends_while_its_ticket_is_handed_in_twice_leaves_none_behind(
    store: Store, first: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = [asyncio.Event(), asyncio.Event()]
    closed = iter(doors)
    both = asyncio.Event()

    async def hand_in(ticket: Ticket) -> None:
        door = next(closed)
        if door is doors[1]:
            both.set()
        await door.wait()
        await Store.hand_in(store, ticket)

    monkeypatch.setattr(store, "hand_in", hand_in)
    live = first.hub.open(ACME, OPTIONS, RecordingSink(), resumable=True)
    beginning = asyncio.ensure_future(live.receive(Audio(CHUNK, 0)))
    await both.wait()
    live.break_down(QuotaExceeded())
    doors[0].set()
    await beginning
    await first.seats.close()
    doors[1].set()
    for _ in range(10):
        await asyncio.sleep(0)
    await first.seats.close()
    assert not store.knows(live.bus_id)


async def test_a_session_that_comes_while_the_others_are_told_to_go_is_told_too_and_left_at_its_next_endpoint(
    first: Site, second: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "RETRY_JITTER_MS", (0, 0))
    sink, again = RecordingSink(), RecordingSink()
    await first.begun(sink)
    second.bus.open.clear()
    coming = asyncio.ensure_future(second.hub.resume_anywhere(ACME, resume_of(sink), again))
    while not second.bus.waited:
        await asyncio.sleep(0)
    second.hub.draining = True
    second.hub.go_away(30.0)
    second.bus.open.set()
    came = await coming
    (told,) = again.of(GoAway)
    assert 0 < told.deadline_ms <= 30_000
    second.bus.emit(Recognised(came.bus_id, result(2, 2, "more", final=True)))
    assert came.over
    assert isinstance(again.error, LeaseLost)


async def test_a_client_that_comes_back_to_its_gateway_while_that_goes_is_told_to_go_and_its_session_left_no_later(
    first: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    live.detach()
    monkeypatch.setattr(leaving, "RETRY_JITTER_MS", (0, 0))
    first.hub.draining = True
    first.hub.go_away(30.0)
    monkeypatch.setattr(leaving, "RETRY_JITTER_MS", (5000, 5000))
    await first.hub.resume_anywhere(ACME, resume_of(sink, last_version=0), again)
    assert isinstance(again.messages[0], Resumed)
    (told,) = again.of(GoAway)
    assert 0 < told.deadline_ms <= 30_000
    first.bus.emit(Recognised(live.bus_id, result(2, 2, "more", final=True)))
    assert live.over
    assert isinstance(again.error, LeaseLost)


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


async def test_seats_that_are_kept_while_a_session_is_about_to_enter_make_no_quota_pass_it_by(
    store: Store, first: Site, second: Site
) -> None:
    kept = [await first.begun(RecordingSink()) for _ in range(ACME.max_sessions)]
    store.admits.clear()
    sink = RecordingSink()
    live = await second.begun(sink)
    for gateway in (first, second):
        await gateway.seats.keep()
    store.admits.set()
    while not sink.closed:
        await asyncio.sleep(0)
    assert isinstance(sink.error, QuotaExceeded)
    assert not live.over  # its client may ask why
    await second.seats.keep()
    assert {one.session_id for one in (await store.sessions(9, ACME.tenant_id)).sessions} == {
        one.bus_id for one in kept
    }
    kept.pop().abandon()
    entered = await second.begun(RecordingSink())
    await second.seats.keep()
    assert [one.over for one in (*kept, entered)] == [False] * ACME.max_sessions


async def test_a_session_that_is_left_to_another_gateway_while_it_is_about_to_enter_can_be_had_there(
    store: Store, first: Site, second: Site
) -> None:
    store.admits.clear()
    sink, again = RecordingSink(), RecordingSink()
    await first.begun(sink)
    await first.hub.let_all_go(5.0)
    store.admits.set()
    await first.seats.close()
    await second.hub.resume_anywhere(ACME, resume_of(sink), again)
    assert again.of(Resumed)
