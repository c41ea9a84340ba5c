"""What every `ports.SessionStore` promises; a test module per adapter gives a store and says how time passes."""

import asyncio
from dataclasses import replace

import pytest

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.checkpoint import ChannelPoint, Checkpoint
from streamscribe.core.errors import LeaseLost, QuotaExceeded
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Mode, SessionOptions
from streamscribe.core.quarantine import Ends
from streamscribe.core.records import SessionOpened
from streamscribe.core.rules import Rule, RuleKind, TextPolicy
from streamscribe.core.session_table import Stage
from streamscribe.ports import Kept, Place, Seat, SessionStore, Ticket

LEASE_S, SEAT_S, KEEP_S = 1000.0, 6000.0, 60_000.0
"""Of each store under test: so long that what a busy machine takes in between decides nothing."""

S1, S2 = SessionId("s1"), SessionId("s2")
MODELS = ("fsmn-vad@6cadc83c4c1c", "big@0123456789ab+small@ba9876543210")
ACME, BOB = TenantId("acme"), TenantId("bob")


def opened(session_id=S1, tenant_id=ACME):
    options = SessionOptions(
        AudioFormat(Encoding.MULAW, 8000, 2), Mode.TWO_PASS, language="zh", hotwords=(Hotword("阿里巴巴", 2.5),)
    )
    policy = TextPolicy((Rule("greeting", RuleKind.PROMISED, ("您好",)),), redact_digits=True)
    return SessionOpened(session_id, 0, tenant_id, TraceId("t1"), options, policy)


def checkpoint(index, skip_bytes=0):
    heard = 16_000 * index
    channel = ChannelPoint(heard, voice=(1, 2), voice_start=None, last_end=3, last_audio_end=4, segments=(5,))
    return Checkpoint(index, skip_bytes, heard, index, (Hotword("咖啡"),), (channel,), segments=5, models=MODELS)


def seat(session_id=S1, gateway="g1", tenant_id=ACME, **more):
    return Seat(SessionId(session_id), tenant_id, SessionId(f"call-{session_id}"), gateway, **more)


def ticket(gateway="g1", *places):
    return Ticket(S1, SessionId("call-s1"), gateway, b"\0digest", opened(), places or (Place(0, 7, 0),))


def epochs(leases):
    return [lease and lease.epoch for lease in leases]


async def who_enters(store, seats, **bounds):
    """The sessions that are let in when all knock at once."""
    done = await asyncio.gather(*(store.enter(one, **bounds) for one in seats), return_exceptions=True)
    assert all(isinstance(error, QuotaExceeded) for error in done if error is not None)
    return [one.session_id for one, error in zip(seats, done, strict=True) if error is None]


class SessionStoreContract:
    """Fixture to give: `store`. Method: `pass_time`."""

    async def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    # leases

    async def test_law_2_a_session_has_one_owner_until_its_lease_ends(self, store: SessionStore):
        first = await store.claim(S1, "w1")
        assert (first.session_id, first.owner) == (S1, "w1")
        await self.pass_time(400)
        with pytest.raises(LeaseLost) as refused:
            await store.claim(S1, "w2")
        assert refused.value.retry_after_s == pytest.approx(600, abs=60)
        await self.pass_time(600)
        second = await store.claim(S1, "w2")
        assert second.epoch == first.epoch + 1
        assert epochs(await store.renew([first, second])) == [None, second.epoch]

    async def test_ones_own_lease_is_claimed_again_in_the_same_epoch_and_lasts_longer(self, store):
        first = await store.claim(S1, "w1")
        await self.pass_time(600)
        assert (await store.claim(S1, "w1")).epoch == first.epoch
        await self.pass_time(600)
        with pytest.raises(LeaseLost):
            await store.claim(S1, "w2")

    async def test_a_renewed_lease_lasts_longer_in_the_same_epoch(self, store):
        leases = [await store.claim(S1, "w1"), await store.claim(S2, "w1")]
        for _ in range(3):
            await self.pass_time(600)
            renewed = await store.renew(leases)
            assert epochs(renewed) == epochs(leases)
        assert await store.renew([]) == []

    async def test_an_ended_lease_is_not_renewed_and_ones_next_has_a_new_epoch(self, store):
        first = await store.claim(S1, "w1")
        await self.pass_time(1000)
        assert await store.renew([first]) == [None]
        assert (await store.claim(S1, "w1")).epoch == first.epoch + 1

    async def test_a_released_session_is_free_at_once_and_its_epoch_goes_on(self, store):
        first = await store.claim(S1, "w1")
        await store.release(first)
        assert await store.renew([first]) == [None]
        second = await store.claim(S1, "w2")
        assert second.epoch == first.epoch + 1
        await store.release(first)
        assert epochs(await store.renew([second])) == [second.epoch]

    async def test_law_2_of_many_that_claim_at_once_one_gets_it(self, store):
        done = await asyncio.gather(*(store.claim(S1, f"w{n}") for n in range(20)), return_exceptions=True)
        assert sum(isinstance(error, LeaseLost) for error in done) == 19

    async def test_law_2_epochs_never_come_again_though_the_session_was_forgotten_or_nobody_spoke_of_it(self, store):
        first = await store.claim(S1, "w1")
        await store.forget(first)
        assert await store.session(S1) is None
        second = await store.claim(S1, "w2")
        await self.pass_time(KEEP_S)
        assert await store.session(S1) is None
        third = await store.claim(S1, "w1")
        assert first.epoch < second.epoch < third.epoch
        for lost in (first, second):
            assert await store.renew([lost]) == [None]
            with pytest.raises(LeaseLost):
                await store.save(lost, opened=opened())

    # what another owner needs

    async def test_a_successor_gets_what_was_saved_with_the_newest_checkpoint(self, store):
        lease = await store.claim(S1, "w1")
        assert await store.load(S1) is None
        await store.save(lease, opened=opened())
        assert await store.load(S1) == opened()
        await store.save(lease, checkpoint=checkpoint(3))
        await store.save(lease, checkpoint=checkpoint(7, skip_bytes=100))
        assert await store.load(S1) == replace(opened(), checkpoint=checkpoint(7, skip_bytes=100))
        await store.release(lease)
        await store.save(await store.claim(S1, "w2"), checkpoint=checkpoint(8))
        assert await store.load(S1) == replace(opened(), checkpoint=checkpoint(8))

    async def test_opened_and_checkpoint_are_saved_together_too(self, store):
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=replace(opened(), checkpoint=checkpoint(1)), checkpoint=checkpoint(2))
        assert await store.load(S1) == replace(opened(), checkpoint=checkpoint(2))

    async def test_a_checkpoint_that_comes_late_does_not_take_the_place_of_a_newer_one(self, store):
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(7, skip_bytes=100))
        for late in (checkpoint(6, skip_bytes=200), checkpoint(7, skip_bytes=99)):
            await store.save(lease, checkpoint=late)
        assert (await store.load(S1)).checkpoint == checkpoint(7, skip_bytes=100)

    async def test_law_2_a_former_owner_writes_nothing_and_is_counted(self, store):
        old = await store.claim(S1, "w1")
        await store.save(old, opened=opened(), checkpoint=checkpoint(1))
        await self.pass_time(1000)
        new = await store.claim(S1, "w2")
        for write in (store.save(old, checkpoint=checkpoint(9)), store.save(old, opened=opened(S2)), store.forget(old)):
            with pytest.raises(LeaseLost):
                await write
        assert await store.load(S1) == replace(opened(), checkpoint=checkpoint(1))
        assert store.counts().fenced == 3
        await store.save(new, checkpoint=checkpoint(2))
        assert (await store.load(S1)).checkpoint == checkpoint(2)

    async def test_an_ended_lease_still_writes_while_nobody_else_has_come(self, store):
        lease = await store.claim(S1, "w1")
        await self.pass_time(2000)
        await store.save(lease, opened=opened())
        assert await store.load(S1) == opened()

    async def test_what_nobody_speaks_of_is_forgotten_and_what_is_renewed_is_not(self, store):
        leases = [await store.claim(S1, "w1"), await store.claim(S2, "w1")]
        for lease in leases:
            await store.save(lease, opened=opened(lease.session_id))
        for _ in range(int(KEEP_S / 800)):
            await self.pass_time(800)
            (leases[0],) = await store.renew([leases[0]])
        assert await store.load(S1) == opened()
        assert await store.load(S2) is None
        assert (await store.sessions(10)).total == 1

    # owners that end

    async def test_the_first_owner_is_told_so_and_so_is_one_that_comes_again_when_the_store_has_lost_all(self, store):
        lease = await store.claim(S1, "w1")
        assert lease.first
        await self.pass_time(1000)
        assert not (await store.claim(S1, "w1")).first
        await self.pass_time(KEEP_S)
        assert (await store.claim(S1, "w1")).first

    async def test_owners_that_ended_without_a_word_are_counted_by_place_and_those_that_released_are_not(self, store):
        async def end(owner, *, place=None, release=False):
            lease = await store.claim(S1, owner)
            if place is not None:
                await store.note(lease, place - 1)
                await store.note(lease, place)
            await (store.release(lease) if release else self.pass_time(1000))
            return lease.ends

        told = [
            await end("w1"),
            await end("w2", release=True),
            await end("w3"),
            await end("w4", place=7),
            await end("w5", place=7),
            await end("w6", place=8),
            await end("w7"),
        ]
        assert told == [
            Ends(),
            Ends(1, 1, None),
            Ends(1, 1, None),
            Ends(2, 2, None),
            Ends(3, 1, 7),
            Ends(4, 2, 7),
            Ends(5, 1, 8),
        ]

    async def test_who_claims_its_own_ended_lease_again_has_not_ended(self, store):
        first = await store.claim(S1, "w1")
        await store.note(first, 3)
        await self.pass_time(1000)
        assert (await store.claim(S1, "w1")).ends == Ends()

    @pytest.mark.parametrize("release", [False, True])
    async def test_who_claims_its_own_ended_lease_again_is_where_it_was_and_another_is_not(self, store, release):
        first = await store.claim(S1, "w1")
        await store.note(first, 3)
        await (store.release(first) if release else self.pass_time(1000))
        await store.claim(S1, "w1")
        told = []
        for owner in ("w2", "w3"):
            await self.pass_time(1000)
            told.append((await store.claim(S1, owner)).ends)
        assert told == [Ends(1, 1, 3), Ends(2, 1, None)]

    async def test_no_end_counts_any_more_once_the_session_got_on_or_has_a_checkpoint_that_goes_further(self, store):
        for number, (got_on, at) in enumerate(
            (
                (lambda lease: store.note(lease, None), None),
                (lambda lease: store.save(lease, opened=opened(), checkpoint=checkpoint(5)), 4),
            )
        ):
            await self.pass_time(1000)
            await store.claim(S1, f"a{number}")
            await self.pass_time(1000)
            lease = await store.claim(S1, f"b{number}")
            assert lease.ends.count >= 1
            await store.note(lease, 4)
            await got_on(lease)
            await self.pass_time(1000)
            lease = await store.claim(S1, f"c{number}")
            assert lease.ends == Ends(1, 1, at), "after a checkpoint the owner is where it was"
        await store.save(lease, checkpoint=checkpoint(5))
        await self.pass_time(1000)
        assert (await store.claim(S1, "last")).ends.count == 2

    async def test_law_2_a_former_owner_notes_nothing(self, store):
        former = await store.claim(S1, "w1")
        await self.pass_time(1000)
        await store.claim(S1, "w2")
        for place in (3, None):
            with pytest.raises(LeaseLost):
                await store.note(former, place)
        await self.pass_time(1000)
        assert (await store.claim(S1, "w3")).ends == Ends(2, 2, None)

    # the engineer on call

    async def test_a_session_is_shown_with_its_stage_owner_epoch_positions_and_ages(self, store):
        await store.enter(seat(), max_sessions=1)
        await self.pass_time(300)
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(2))
        await self.pass_time(100)
        await store.keep([seat(stage=Stage.STREAMING, received_ms=5000, processed_ms=3800)])
        await self.pass_time(200)
        view = await store.session(S1)
        assert (view.session_id, view.tenant_id, view.called) == (S1, ACME, "call-s1")
        assert (view.stage, view.gateway, view.owner, view.epoch, view.owners) == (
            *(Stage.STREAMING, "g1", "w1"),
            *(lease.epoch, 1),
        )
        assert (view.received_ms, view.processed_ms, view.lag_ms, view.checkpoint_ms) == (5000, 3800, 1200, 2000)
        assert view.models == MODELS
        ages = (view.age_s, view.told_s, view.saved_s, view.lease_s)
        assert ages == pytest.approx((600, 200, 300, 700), abs=60)

    async def test_a_session_without_an_owner_is_shown_as_such_and_a_taken_over_one_says_how_often(self, store):
        await store.enter(seat(), max_sessions=1)
        waiting = await store.session(S1)
        assert (waiting.owner, waiting.lease_s, waiting.epoch, waiting.owners) == (None, None, None, 0)
        first = await store.claim(S1, "w1")
        await self.pass_time(1000)
        orphan = await store.session(S1)
        assert (orphan.owner, orphan.epoch, orphan.owners) == (None, first.epoch, 1)
        await store.claim(S1, "w2")
        assert (await store.session(S1)).owners == 2
        assert await store.session(S2) is None

    async def test_a_session_is_gone_when_both_its_worker_and_its_gateway_have_let_go(self, store):
        await store.enter(seat(), max_sessions=1)
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(2))
        await store.forget(lease)
        view = await store.session(S1)
        assert (view.gateway, view.epoch, view.checkpoint_ms) == ("g1", None, None)
        assert view.models == ()
        assert await store.load(S1) is None
        await store.leave(seat())
        assert await store.session(S1) is None
        assert (await store.sessions(10)).total == 0

        await store.enter(seat(), max_sessions=1)
        lease = await store.claim(S1, "w1")
        await store.leave(seat())
        view = await store.session(S1)
        assert (view.gateway, view.stage, view.owner) == (None, None, "w1")
        await store.forget(lease)
        assert await store.session(S1) is None

    async def test_sessions_are_listed_of_all_or_of_one_tenant_and_within_bounds(self, store):
        for number in range(7):
            await store.enter(seat(f"a{number}"), max_sessions=10)
            await store.enter(seat(f"b{number}", tenant_id=BOB), max_sessions=10)
        page = await store.sessions(5)
        assert (page.total, len(page.sessions)) == (14, 5)
        mine = await store.sessions(100, BOB)
        assert (mine.total, {view.tenant_id for view in mine.sessions}) == (7, {BOB})
        assert sorted(view.session_id for view in mine.sessions) == [f"b{number}" for number in range(7)]
        assert await store.sessions(10, TenantId("nobody")) == replace(page, total=0, sessions=())

    async def test_who_was_not_spoken_of_for_longest_is_listed_first(self, store):
        for name in ("a", "b", "c"):
            await store.enter(seat(name), max_sessions=10)
            await self.pass_time(100)
        await store.keep([seat("a")])
        assert [view.session_id for view in (await store.sessions(2)).sessions] == ["b", "c"]

    async def test_hundreds_of_leases_and_seats_are_kept_in_their_order(self, store):
        names = [SessionId(f"s{number}") for number in range(250)]
        leases = await asyncio.gather(*(store.claim(name, "w1") for name in names))
        await store.release(leases[150])
        renewed = await store.renew(leases)
        assert [lease.session_id if lease else None for lease in renewed] == [*names[:150], None, *names[151:]]
        await store.enter(seat("s3", gateway="other"), max_sessions=1)
        await store.hand_in(replace(ticket(), session_id=SessionId("s5")))
        kept = await store.keep([seat(name) for name in names])
        assert {number: answer for number, answer in enumerate(kept) if answer is not Kept.NO_TICKET} == {
            3: Kept.LOST,
            5: Kept.KEPT,
        }
        assert (await store.sessions(1000)).total == 250

    async def test_it_says_that_it_is_there(self, store):
        await store.check()
        assert store.counts().failures == 0
