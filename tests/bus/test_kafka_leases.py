"""Leases that ended while their owner could not keep them: whose the session is then."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.store.memory_sessions import MemorySessions
from tests.bus.kafka_site import LEASE_S, A, Site, Wayward, away, virtually
from tests.contracts.bus import opened
from tests.contracts.takeover import Listener, checkpoint, session

Ask = Callable[[Leases, Owned], Awaitable[bool]]


async def renewed(leases: Leases, owned: Owned) -> bool:
    return await leases.renew([owned]) == []


WAYS: dict[str, Ask] = {
    "renews": renewed,
    "saves": lambda leases, owned: leases.save(owned, checkpoint(9)),
    "notes": lambda leases, owned: leases.note(owned, 3),
}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def frozen_past_its_lease() -> tuple[MemorySessions, Clock, Leases, Owned]:
    clock = Clock()
    store = MemorySessions(lease_ttl_s=LEASE_S, seat_ttl_s=15, keep_s=600, clock=clock)
    leases, owned = Leases(store, "frozen"), Owned(A, 0, 0)
    owned.opened = opened("a")
    await leases.claim(owned)
    assert await leases.save(owned, checkpoint(5))
    clock.now += 3 * LEASE_S
    return store, clock, leases, owned


@pytest.mark.parametrize("way", WAYS)
async def test_who_was_frozen_while_another_had_the_session_never_speaks_in_an_epoch_after_that_ones(way: str) -> None:
    store, _, leases, owned = await frozen_past_its_lease()
    assert owned.lease is not None
    before = owned.epoch
    other = await store.claim(A, "another")
    await store.save(other, checkpoint=checkpoint(7))
    await store.release(other)
    assert not await WAYS[way](leases, owned)
    assert (owned.epoch, owned.lease.epoch) == (before, before)
    following = await store.claim(A, "a third")
    assert following.ends.count == 0, "what the frozen one claimed is free, and blames nobody"
    known = await store.load(A)
    assert known is not None
    assert known.checkpoint == checkpoint(7)


async def test_who_was_frozen_while_nobody_had_the_session_goes_on_in_the_next_epoch() -> None:
    _, _, leases, owned = await frozen_past_its_lease()
    before = owned.epoch
    assert before is not None
    assert await renewed(leases, owned)
    assert owned.epoch == before + 1


@pytest.mark.parametrize("way", WAYS)
async def test_where_the_store_has_lost_all_its_owner_has_the_session_still_whatever_the_epoch(way: str) -> None:
    store, clock, leases, owned = await frozen_past_its_lease()
    store.__init__(lease_ttl_s=LEASE_S, seat_ttl_s=15, keep_s=600, clock=clock)  # type: ignore[misc]
    store._leases._forgotten_epoch = 700
    assert await WAYS[way](leases, owned)
    assert owned.epoch == 701


def test_a_session_that_another_worker_had_meanwhile_goes_on_from_what_that_one_saved() -> None:
    async def play(site: Site) -> None:
        records = list(session("a", 20))
        site.store = Wayward(site.memory)
        site.publish(*records[:12])
        bus = site.worker()
        listener = Listener(bus)
        await asyncio.sleep(3)
        site.store.answers = dict.fromkeys(("claim", "renew", "save", "note", "abandon"), away)
        await asyncio.sleep(LEASE_S + 0.5)
        other = await site.memory.claim(A, "another")
        await site.memory.save(other, checkpoint=checkpoint(12))
        await site.memory.release(other)
        site.store.answers = {}
        await asyncio.sleep(1)
        assert bus.lost == 1
        heard = len(listener.heard[A])
        await asyncio.sleep(8)
        site.publish(*records[12:])
        await asyncio.sleep(8)
        assert site.finished() == {A}
        assert site.failures() == {}
        again = [record.index for record in listener.heard[A][heard:]]
        assert again == [0, *range(12, 22)]

    virtually(play)
