"""Marks that a gateway has taken reach the store, whatever it says the first time."""

import asyncio

import pytest

from streamscribe.core.errors import InternalError, StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.ports import Place
from tests.gateway.moving_rig import Store, site
from tests.gateway.rig import RecordingSink


@pytest.mark.parametrize("late", [False, True])
async def test_a_ripe_mark_that_the_store_did_not_take_is_told_again_though_no_other_comes(
    store: Store, late: bool
) -> None:
    store.refusing, store.late = [StoreUnavailable(), StoreUnavailable()], late
    async with site(store, "first", behind_s=0.02) as first:
        first.bus.marks_each = 1
        live = await first.begun(RecordingSink())
        async with asyncio.timeout(30):
            await store.settled.wait()
        ticket = await store.ticket(live.bus_id)
        assert ticket is not None
        assert ticket.places[0].mark
        assert store.refusing == []


async def marked(store: Store, session_id: SessionId) -> None:
    """Returns when the store has a mark of the session."""
    async with asyncio.timeout(30):
        while (ticket := await store.ticket(session_id)) is None or not ticket.places[0].mark:
            await asyncio.sleep(0.01)


async def test_a_ripe_mark_of_a_session_whose_ticket_the_store_has_lost_comes_with_the_new_ticket(store: Store) -> None:
    store.forgetful = True
    async with site(store, "first", behind_s=0.02) as first:
        first.bus.marks_each = 1
        live = await first.begun(RecordingSink())
        await marked(store, live.bus_id)
        assert not store.forgetful
        assert first.mover.can_be_found(live)


async def test_a_mark_that_ripens_while_the_ticket_before_it_is_on_its_way_follows(store: Store) -> None:
    store.away = True
    async with site(store, "first", behind_s=60) as first:
        live = await first.begun(RecordingSink())
        store.open.clear()
        store.away = False
        handing_in = asyncio.ensure_future(first.mover._hand_in(live.bus_id))
        await asyncio.sleep(0)
        assert first.mover._handed[live.bus_id]
        before, place = first.mover._tickets[live.bus_id], Place(0, 0, 0, b"where it stands")
        assert await first.mover._is_settled(before, place)
        store.open.set()
        await handing_in
        await marked(store, live.bus_id)


async def test_one_session_whose_mark_the_store_does_not_take_costs_no_other_its_own(store: Store) -> None:
    store.refusing = [StoreUnavailable()]
    async with site(store, "first", behind_s=0.02) as first:
        first.bus.marks_each = 1
        both = [await first.begun(RecordingSink()) for _ in range(2)]
        async with asyncio.timeout(30):
            for live in both:
                while (ticket := await store.ticket(live.bus_id)) is None or not ticket.places[0].mark:
                    store.settled.clear()
                    await store.settled.wait()


async def test_a_ticket_that_nobody_can_read_costs_its_session_the_mark_and_the_gateway_nothing(store: Store) -> None:
    store.refusing = [InternalError("the store has the session's ticket in a form that is not known here")]
    async with site(store, "first", behind_s=0.02) as first:
        first.bus.marks_each = 1
        both = [await first.begun(RecordingSink()) for _ in range(2)]
        async with asyncio.timeout(30):
            await store.settled.wait()
        tickets = [await store.ticket(live.bus_id) for live in both]
        assert sum(ticket is not None and bool(ticket.places[0].mark) for ticket in tickets) == 1
