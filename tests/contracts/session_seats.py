"""What every `ports.SessionStore` promises of tenants' seats, and of sessions that move between gateways."""

import asyncio

import pytest

from streamscribe.core.errors import QuotaExceeded
from streamscribe.core.ids import LeaseEpoch
from streamscribe.ports import Kept, Place
from tests.contracts.session_store import BOB, S1, S2, SEAT_S, SessionStoreContract, opened, seat, ticket, who_enters


class SeatContract(SessionStoreContract):
    """Both suites."""

    # tenants' seats

    async def test_a_tenant_has_as_many_seats_as_it_may_and_others_have_their_own(self, store):
        for name in "ab":
            await store.enter(seat(name), max_sessions=2)
        with pytest.raises(QuotaExceeded, match="tenant session quota exceeded") as refused:
            await store.enter(seat("c"), max_sessions=2)
        assert refused.value.retry_after_s > 0
        await store.enter(seat("c", tenant_id=BOB), max_sessions=1)
        await store.enter(seat("a"), max_sessions=2)
        await store.leave(seat("a"))
        await store.enter(seat("c"), max_sessions=2)

    async def test_a_tenants_seats_are_exact_however_many_knock_at_once(self, store):
        assert len(await who_enters(store, [seat(f"n{n}") for n in range(60)], max_sessions=17)) == 17

    async def test_a_crash_frees_seats_and_who_keeps_them_has_them(self, store):
        await store.enter(seat("kept"), max_sessions=2)
        await store.enter(seat("crashed"), max_sessions=2)
        await self.pass_time(4000)
        assert await store.keep([seat("kept")]) == [Kept.NO_TICKET]
        await self.pass_time(2000)
        assert len(await who_enters(store, [seat("c"), seat("d")], max_sessions=2)) == 1

    async def test_a_seat_that_ended_is_taken_again_by_the_session_that_goes_on(self, store):
        await store.enter(seat("a"), max_sessions=1)
        await self.pass_time(SEAT_S)
        assert await store.keep([seat("a")]) == [Kept.NO_TICKET]
        with pytest.raises(QuotaExceeded):
            await store.enter(seat("b"), max_sessions=1)

    async def test_new_sessions_a_minute_are_bounded_and_refused_ones_do_not_count(self, store):
        bounds = {"max_sessions": 10, "max_per_minute": 3}
        await store.enter(seat("a"), **bounds)
        await self.pass_time(20)
        for name in "bc":
            await store.enter(seat(name), **bounds)
        for _ in range(5):
            with pytest.raises(QuotaExceeded, match="at most 3 sessions may begin in a minute") as refused:
                await store.enter(seat("d"), **bounds)
        assert refused.value.retry_after_s == pytest.approx(40, abs=9)
        await store.enter(seat("a"), **bounds)
        await store.enter(seat("d", tenant_id=BOB), **bounds)
        await self.pass_time(40)
        await store.enter(seat("d"), **bounds)
        with pytest.raises(QuotaExceeded):
            await store.enter(seat("e"), **bounds)

    async def test_new_sessions_a_minute_are_exact_however_many_knock_at_once(self, store):
        seats = [seat(f"n{n}") for n in range(60)]
        assert len(await who_enters(store, seats, max_sessions=100, max_per_minute=17)) == 17

    async def test_who_was_refused_for_the_minute_has_no_seat(self, store):
        await store.enter(seat("a"), max_sessions=2, max_per_minute=1)
        with pytest.raises(QuotaExceeded):
            await store.enter(seat("b"), max_sessions=2, max_per_minute=1)
        await store.enter(seat("c"), max_sessions=2)

    async def test_a_gateway_that_comes_late_can_neither_take_nor_keep_nor_free_what_another_has(self, store):
        await store.enter(seat(gateway="g1", received_ms=1), max_sessions=1)
        await store.enter(seat(gateway="g2"), max_sessions=1)
        seats = [seat(gateway="g2", received_ms=9), seat(gateway="g1", received_ms=5)]
        assert await store.keep(seats) == [Kept.LOST, Kept.NO_TICKET]
        await store.leave(seat(gateway="g2"))
        view = await store.session(S1)
        assert (view.gateway, view.received_ms) == ("g1", 5)
        with pytest.raises(QuotaExceeded):
            await store.enter(seat("other"), max_sessions=1)

    async def test_law_2_who_enters_late_takes_no_session_back_that_has_moved(self, store):
        await store.hand_in(ticket())
        moved = ticket("g2", Place(0, 7, 0), Place(3, 20, 1))
        assert await store.move(moved)
        await store.enter(seat(gateway="g1"), max_sessions=1)
        assert await store.keep([seat(gateway="g1"), seat(gateway="g2")]) == [Kept.LOST, Kept.KEPT]
        assert await store.ticket(S1) == moved

    # another gateway

    async def test_a_ticket_is_kept_until_its_gateway_leaves_and_lets_another_gateway_take_the_session(self, store):
        await store.enter(seat(gateway="g1"), max_sessions=1)
        assert await store.ticket(S1) is None
        await store.hand_in(ticket())
        assert await store.ticket(S1) == ticket()
        moved = ticket("g2", Place(0, 7, 0), Place(3, 20, 1))
        assert await store.move(moved)
        assert await store.ticket(S1) == moved
        assert await store.keep([seat(gateway="g1"), seat(gateway="g2")]) == [Kept.LOST, Kept.KEPT]
        await store.leave(seat(gateway="g1"))
        await store.hand_in(ticket())
        assert await store.ticket(S1) == moved
        await store.leave(seat(gateway="g2"))
        assert await store.ticket(S1) is None
        assert await store.session(S1) is None

    async def test_a_gateway_tells_from_where_its_session_is_to_be_read_unless_another_has_it(self, store):
        await store.enter(seat(gateway="g1"), max_sessions=1)
        await store.hand_in(ticket())
        marked = Place(3, 900, 1, b"\xff:\0 mark", LeaseEpoch(5), 70)
        moved = ticket("g2", Place(0, 7, 0), Place(3, 20, 1))
        assert await store.move(moved)
        assert not await store.settle_places(ticket("g1", Place(0, 8, 0)), ticket().places)
        settled = ticket("g2", marked)
        assert await store.settle_places(settled, moved.places)
        assert await store.ticket(S1) == settled
        assert not await store.settle_places(settled, moved.places)
        await store.hand_in(ticket())
        assert await store.ticket(S1) == settled
        again = ticket("g1", marked, Place(0, 40, 2))
        assert await store.move(again)
        assert await store.ticket(S1) == again

    async def test_a_session_that_moves_too_often_for_any_gateway_to_keep_its_seat_has_it_all_the_same(self, store):
        await store.enter(seat(), max_sessions=1)
        await store.hand_in(ticket())
        places = [Place(0, 7, 0)]
        for n in range(1, 4):
            await self.pass_time(0.6 * SEAT_S)
            places.append(Place(n, 20, n))
            assert await store.move(ticket(f"g{n}", *places))
        with pytest.raises(QuotaExceeded):
            await store.enter(seat("b"), max_sessions=1)
        await store.leave(seat(gateway="g3"))
        await store.enter(seat("b"), max_sessions=1)

    async def test_of_many_gateways_that_take_a_session_at_once_one_gets_it(self, store):
        await store.enter(seat(gateway="g1"), max_sessions=1)
        await store.hand_in(ticket())
        moves = (store.move(ticket(f"g{n}", Place(0, 7, 0), Place(n, 20, 1))) for n in range(20))
        assert sum(await asyncio.gather(*moves)) == 1
        assert not await store.move(ticket("g9", Place(0, 7, 0), Place(9, 20, 1)))

    async def test_who_takes_a_session_that_is_not_there_gets_nothing(self, store):
        assert not await store.move(ticket("g2", Place(0, 7, 0), Place(3, 20, 1)))
        assert await store.session(S1) is None

    async def test_a_ticket_outlasts_the_worker(self, store):
        await store.hand_in(ticket())
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened())
        await store.forget(lease)
        assert await store.ticket(S1) == ticket()

    async def test_a_gateway_is_told_that_a_ticket_is_missing_and_may_hand_in_one_that_has_moved(self, store):
        await store.enter(seat(gateway="g2"), max_sessions=1)
        assert await store.keep([seat(gateway="g2")]) == [Kept.NO_TICKET]
        moved = ticket("g2", Place(0, 7, 0), Place(3, 20, 1))
        await store.hand_in(moved)
        assert await store.keep([seat(gateway="g2")]) == [Kept.KEPT]
        assert await store.ticket(S1) == moved

    # sessions whose gateway is gone

    async def test_a_session_is_orphaned_once_no_gateway_has_told_of_it_for_so_long_and_then_none_can_have_it(
        self, store
    ):
        await store.enter(seat(), max_sessions=1)
        await store.hand_in(ticket())
        lease = await store.claim(S1, "w1")
        await self.pass_time(500)
        assert await store.abandon([lease], 900) == [False]
        await store.keep([seat()])
        await self.pass_time(500)
        assert await store.abandon([lease], 900) == [False]
        assert await store.ticket(S1) == ticket()
        await self.pass_time(500)
        assert await store.abandon([lease], 900) == [True]
        assert await store.ticket(S1) is None
        assert not await store.move(ticket("g2", Place(0, 7, 0), Place(3, 20, 1)))
        await store.forget(lease)
        assert await store.session(S1) is None

    async def test_a_client_that_comes_back_at_another_gateway_in_time_finds_its_session(self, store):
        await store.enter(seat(), max_sessions=1)
        await store.hand_in(ticket())
        lease = await store.claim(S1, "w1")
        await self.pass_time(1000)
        assert await store.move(ticket("g2", Place(0, 7, 0), Place(3, 20, 1)))
        assert await store.abandon([lease], 900) == [False]

    async def test_a_session_of_which_no_gateway_ever_told_is_as_old_as_the_store_knows_it(self, store):
        leases = [await store.claim(S1, "w1")]
        await self.pass_time(500)
        leases.append(await store.claim(S2, "w1"))
        await self.pass_time(450)
        assert await store.abandon(leases, 900) == [True, False]

    async def test_law_2_a_former_owner_abandons_nothing(self, store):
        await store.enter(seat(), max_sessions=1)
        former = await store.claim(S1, "w1")
        await self.pass_time(1000)
        await store.claim(S1, "w2")
        assert await store.abandon([former], 900) == [False]
        assert (await store.session(S1)).gateway == "g1"
