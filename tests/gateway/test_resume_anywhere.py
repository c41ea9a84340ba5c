"""Who may have a session that is here, elsewhere or on its way, and what becomes of it where one may not."""

import asyncio
from dataclasses import replace

import pytest

from streamscribe.core.errors import LeaseLost, SessionNotFound, SessionSuperseded, StoreUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.core.messages import Audio, ErrorSent, Resume, Resumed
from streamscribe.gateway.live_session import LiveSession
from streamscribe.wire.session_mark import encode_mark
from tests.gateway.moving_rig import OPTIONS, Site, Store, resume_of
from tests.gateway.rig import RecordingSink
from tests.gateway.test_hub import ACME, CHUNK


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


async def test_who_lacks_what_no_other_gateway_can_tell_is_refused_before_the_session_moves(
    store: Store, first: Site, second: Site
) -> None:
    """Version -1, of a session from its start; 0, of one whose mark lies behind its first result."""
    sink, newcomer = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    with pytest.raises(SessionNotFound):
        await second.hub.resume_anywhere(ACME, claiming(sink, -1, 0), newcomer)
    ticket, mark = await store.ticket(live.bus_id), live.mark()
    assert ticket is not None
    assert mark is not None
    marked = replace(ticket, places=(replace(ticket.places[0], mark=encode_mark(mark)),))
    assert await store.settle_places(marked, ticket.places)
    with pytest.raises(SessionNotFound):
        await second.hub.resume_anywhere(ACME, resume_of(sink, last_version=0), newcomer)
    assert await store.ticket(live.bus_id) == marked
    assert newcomer.messages == []
    assert not sink.closed
    await second.hub.resume_anywhere(ACME, resume_of(sink), newcomer)
    assert newcomer.of(Resumed)


@pytest.mark.parametrize("claim", [(9, 0), (1, 7)])
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


@pytest.mark.parametrize("away", [True, False])
async def test_a_session_that_is_here_is_resumed_though_nobody_can_read_its_ticket(
    store: Store, first: Site, away: bool
) -> None:
    sink, again = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    live.detach()
    store.away, store.unreadable = away, set() if away else {live.bus_id}
    assert await first.hub.resume_anywhere(ACME, resume_of(sink), again) is live
    assert again.of(Resumed)


async def asked(store: Store, times: int) -> None:
    """Returns when somebody waits for the store's answer."""
    while store.asked < times:
        await asyncio.sleep(0)


async def answered(store: Store, waiting: "asyncio.Future[LiveSession]") -> LiveSession:
    """The session, for whoever waited for the store."""
    store.answers.set()
    async with asyncio.timeout(30):
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


async def moving(store: Store, site: Site, sink: RecordingSink) -> "asyncio.Future[LiveSession]":
    """A session on its way there, which waits for the store."""
    store.answers.clear()
    before = store.asked
    coming = asyncio.ensure_future(site.hub.resume_anywhere(ACME, resume_of(sink), RecordingSink()))
    await asked(store, before + 1)
    return coming


async def test_the_name_of_a_session_that_is_on_its_way_here_is_known(store: Store, first: Site, second: Site) -> None:
    sink = RecordingSink()
    live = await first.begun(sink)
    coming = await moving(store, second, sink)
    assert second.hub.is_known(ACME, live.session_id)
    assert not second.hub.is_known(replace(ACME, tenant_id=TenantId("globex")), live.session_id)
    store.away = True
    with pytest.raises(StoreUnavailable):
        await answered(store, coming)
    assert not second.hub.is_known(ACME, live.session_id)
    store.away = False
    await second.hub.resume_anywhere(ACME, resume_of(sink), RecordingSink())
    assert second.hub.is_known(ACME, live.session_id)


async def test_a_session_that_begins_under_a_name_while_another_of_that_name_is_on_its_way_goes_on(
    store: Store, first: Site, second: Site
) -> None:
    sink, begun = RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    there = second.hub.open(ACME, OPTIONS, begun, session_id=live.session_id, resumable=True)
    coming = await moving(store, second, sink)
    await there.receive(Audio(CHUNK, 0))
    with pytest.raises(SessionNotFound):
        await answered(store, coming)
    assert not begun.closed
    assert not sink.closed
    assert second.hub.session(ACME.tenant_id, live.session_id) is there
    ticket = await store.ticket(live.bus_id)
    assert ticket is not None
    assert ticket.gateway == "first"


async def test_who_is_silent_under_the_name_of_a_session_that_comes_is_told_before_it_can_speak(
    first: Site, second: Site
) -> None:
    sink, silent, again = RecordingSink(), RecordingSink(), RecordingSink()
    live = await first.begun(sink)
    second.hub.open(ACME, OPTIONS, silent, session_id=live.session_id, resumable=True)
    second.bus.open.clear()
    coming = asyncio.ensure_future(second.hub.resume_anywhere(ACME, resume_of(sink), again))
    async with asyncio.timeout(30):
        while not second.bus.waited:
            await asyncio.sleep(0)
    assert [message.error.code for message in silent.of(ErrorSent)] == ["session_superseded"]
    assert second.hub.is_known(ACME, live.session_id)
    second.bus.open.set()
    await coming
    assert again.of(Resumed)


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
