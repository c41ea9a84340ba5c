"""What the worker's end of Kafka does with sessions that go wrong, over the log of the simulation, in its time."""

import asyncio
import json
import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.errors import InternalError
from streamscribe.core.ids import SessionId
from streamscribe.core.lease import Lease
from streamscribe.core.records import Progress, Record, SessionAbandoned, SessionOpened
from tests.bus.kafka_site import LEASE_S, ORPHANED_S, TOPICS, A, B, Site, Wayward, away, seat, virtually
from tests.contracts.bus import chunk, opened
from tests.contracts.takeover import CHUNK, Listener, checkpoint, session
from tests.sim.cluster import _WorkerEnd

# sessions whose gateway is gone


def test_a_session_that_no_gateway_has_any_more_ends_and_the_partition_goes_on() -> None:
    async def play(site: Site) -> None:
        await site.memory.enter(seat(A), max_sessions=5)
        site.publish(*list(session("a", 9))[:5])
        listener = Listener(site.worker())
        await asyncio.sleep(ORPHANED_S - 5)
        assert site.failures() == {}
        assert site.committed == 0
        await asyncio.sleep(10)
        assert site.failures() == {"a": "timeout"}
        assert isinstance(listener.heard[A][-1], SessionAbandoned)
        await asyncio.sleep(2)
        assert site.committed == 6, "past its records and the mark of its end"
        assert await site.memory.session(A) is None
        assert site.workers[0].orphaned == 1

    virtually(play)


def test_a_session_whose_gateway_lives_goes_on_however_long_its_client_says_nothing() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:5])
        Listener(site.worker())
        await site.keep(300, seat(A))
        site.publish(*list(session("a", 9))[5:])
        await asyncio.sleep(1)
        assert site.finished() == {A}

    virtually(play)


def test_a_store_that_was_away_for_long_makes_nobody_an_orphan() -> None:
    async def play(site: Site) -> None:
        site.store = Wayward(site.memory)
        site.publish(*list(session("a", 9))[:5])
        Listener(site.worker())
        await site.keep(10, seat(A))
        site.store.answers = dict.fromkeys(("claim", "renew", "save", "note", "abandon"), away)
        await asyncio.sleep(200)
        site.store.answers = {}
        await asyncio.sleep(20)
        await site.keep(60, seat(A))
        site.publish(*list(session("a", 9))[5:])
        await asyncio.sleep(1)
        assert site.finished() == {A}

    virtually(play)


# a store that has lost everything


def test_a_store_that_lost_all_is_given_again_what_a_successor_needs() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 20))[:8])
        first = Listener(site.worker())
        await asyncio.sleep(3)
        before = await site.memory.load(A)
        assert before == replace(opened("a"), checkpoint=checkpoint(6))
        site.store.__init__(lease_ttl_s=LEASE_S, seat_ttl_s=15, keep_s=600, clock=asyncio.get_running_loop().time)
        await asyncio.sleep(3)
        assert await site.memory.load(A) == before
        site.publish(*list(session("a", 20))[8:])
        assert isinstance(first.bus, _WorkerEnd)
        await site.crash(first.bus)
        Listener(site.worker())
        await asyncio.sleep(10)
        assert site.finished() == {A}

    virtually(play)


def test_a_worker_says_which_sessions_were_another_workers_and_of_no_others() -> None:
    async def play(site: Site) -> None:
        first = site.worker()
        told: list[SessionOpened] = []
        first.on_taken_over = told.append
        Listener(first)
        site.publish(*list(session("a", 20))[:8])
        await asyncio.sleep(3)
        assert told == [], "it began here"
        await site.crash(first)
        second = site.worker()
        second.on_taken_over = told.append
        Listener(second)
        site.publish(*list(session("a", 20))[8:], *session("b", 5))
        await asyncio.sleep(10)
        assert site.finished() == {A, B}
        assert [(one.session_id, one.tenant_id) for one in told] == [(A, "default")]
        assert (first.taken_over, second.taken_over) == (0, 1)

    virtually(play)


def test_a_worker_says_what_becomes_of_its_partitions() -> None:
    async def play(site: Site) -> None:
        told: list[tuple[str, str, list[int]]] = []
        first = site.worker()
        first.on_partitions = lambda what, numbers: told.append(("first", what, list(numbers)))
        Listener(first)
        await asyncio.sleep(3)
        second = site.worker()
        second.on_partitions = lambda what, numbers: told.append(("second", what, list(numbers)))
        Listener(second)
        await asyncio.sleep(3)
        await first.close()
        await asyncio.sleep(10)
        assert [one for one in told if one[2]] == [
            ("first", "assigned", [0]),
            ("first", "revoked", [0]),
            ("second", "assigned", [0]),
        ]

    virtually(play)


# what goes wrong with one session


@pytest.mark.parametrize("what", ["load", "ticket"])
def test_what_the_store_has_and_nobody_can_read_fails_its_session_alone(what: str) -> None:
    async def play(site: Site) -> None:
        ask = getattr(site.memory, what)

        async def unreadable(session_id: SessionId) -> Any:
            if session_id == A:
                raise InternalError("the store has the session in a form that is not known here")
            return await ask(session_id)

        site.store = Wayward(site.memory, **{what: unreadable})
        site.publish(*session("a", 3), *session("b", 3))
        Listener(site.worker())
        await asyncio.sleep(5)
        assert site.failures() == {"a": "internal"}
        assert site.finished() == {B}
        assert not site.workers[0].over

    virtually(play)


def test_a_defect_of_a_worker_at_one_record_fails_its_session_and_no_record_behind_it_is_lost() -> None:
    async def play(site: Site) -> None:
        bus = site.worker()
        listener = Listener(bus)

        def hear(record: Record) -> None:
            if record == chunk("a", 2, CHUNK):
                raise RuntimeError("a defect")
            listener.hear(record)

        bus.attach_worker(hear)
        site.publish(opened("a"), opened("b"))
        await asyncio.sleep(3)
        both = zip(session("a", 6), session("b", 6), strict=True)
        site.publish(*[record for pair in both for record in pair][2:])
        await asyncio.sleep(5)
        assert site.failures() == {"a": "internal"}
        assert site.finished() == {B}
        assert [record.index for record in listener.heard[B]] == list(range(8))
        assert not bus.over

    assert [one["message"] for one in virtually(play).failures] == ["a bus has a defect"]


@pytest.mark.parametrize("live", [True, False])
def test_a_record_that_is_missing_fails_its_session_instead_of_going_unheard(live: bool) -> None:
    async def play(site: Site) -> None:
        records = list(session("a", 6))
        listener = Listener(site.worker())
        site.publish(*records[:3])
        if live:
            await asyncio.sleep(3)
        site.publish(*records[4:], *session("b", 3))
        await asyncio.sleep(5)
        assert site.failures() == {"a": "bus_unavailable"}
        assert site.finished() == {B}
        assert records[4] not in listener.heard[A]

    virtually(play)


def test_what_is_told_in_two_partitions_counts_once_nothing_before_it_is_missing() -> None:
    owned = Owned(A, 0, 0)
    owned.told = 4
    owned.checkpoints.append((2, checkpoint(6)))
    for number in (3, 4):
        owned.deliver(number)
    assert (owned.delivered, owned.durable_checkpoint()) == (0, None)
    owned.deliver(2)
    owned.check_integrity()
    owned.deliver(1)
    assert (owned.delivered, owned.durable_checkpoint()) == (4, checkpoint(6))


# sessions that end workers


class Fragile(Listener):
    """A worker that ends at a record."""

    def __init__(self, bus: _WorkerEnd, fatal: Record) -> None:
        self.fatal = fatal
        super().__init__(bus, every=100)

    def hear(self, record: Record) -> None:
        if record == self.fatal:
            self.stopped.set()
        super().hear(record)


async def until_nobody_ends(site: Site, fatal: Record, most: int = 8) -> int:
    """How many workers end, one after the other."""
    for number in range(most):
        bus = site.worker()
        fragile = Fragile(bus, fatal)
        try:
            async with asyncio.timeout(20):
                await fragile.stopped.wait()
        except TimeoutError:
            return number
        await site.crash(bus)
    raise AssertionError("workers end for ever")


def test_a_record_that_ends_workers_is_named_and_its_session_fails_and_the_others_are_heard() -> None:
    async def play(site: Site) -> None:
        names = ("a", "b", "c")
        for records in zip(*(session(name, 20) for name in names), strict=True):
            site.publish(*records)
        fatal = list(session("b", 20))[9]
        assert await until_nobody_ends(site, fatal) == 4, "two unseen, two seen at the record alone"
        await asyncio.sleep(5)
        assert site.failures() == {"b": "quarantined"}
        assert site.finished() == {A, SessionId("c")}
        (letter,) = site.broker.read(TOPICS.dead_letter, 0, 0, 100)
        told = json.loads(letter.value())
        named = [told[name] for name in ("topic", "partition", "offset", "session_id", "trace_id", "v")]
        assert named == [TOPICS.audio, 0, 3 * 9 + 1, "b", "t", 1]
        assert site.quarantined == [(B, "t", 9)]
        assert site.workers[-1].quarantined == 1
        assert site.committed > 3 * 20
        assert await site.memory.session(B) is None

    virtually(play)


def test_workers_that_end_for_no_reason_again_and_again_cost_no_session() -> None:
    async def play(site: Site) -> None:
        chance = random.Random(5)
        names = [f"s{number}" for number in range(6)]
        published = {name: iter(session(name, 400)) for name in names}
        for _ in range(30):
            bus = site.worker()
            Listener(bus, every=100)
            for _ in range(chance.randrange(3, 12)):
                for name in names:
                    site.publish(next(published[name]))
                await asyncio.sleep(chance.choice([0.05, 0.2, 0.5]))
            await asyncio.sleep(chance.choice([0.0, 2.0, 4.0, 4.5, 6.0]))
            await site.crash(bus)
        for name in names:
            site.publish(*published[name])
        Listener(site.worker())
        await asyncio.sleep(30)
        assert site.failures() == {}
        assert site.finished() == set(names)

    virtually(play)


def test_workers_that_leave_in_good_order_blame_nobody() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:5])
        for _ in range(5):
            bus = site.worker()
            Listener(bus, every=100, stop_at=3)
            await asyncio.sleep(3)
            (held,) = bus.sessions
            assert held.lease is not None
            assert held.lease.ends.count == 0
            await bus.close()
            site.workers.remove(bus)

    virtually(play)


@pytest.mark.parametrize("leaves_after_s", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.1, 1.3])
def test_a_worker_that_leaves_while_the_store_answers_leaves_no_lease_behind(leaves_after_s: float) -> None:
    async def play(site: Site) -> None:
        async def slow(*args: Any) -> Any:
            lease = await site.memory.claim(*args)
            await asyncio.sleep(0.5)
            return lease

        async def slow_load(session_id: SessionId) -> Any:
            await asyncio.sleep(0.5)
            return await site.memory.load(session_id)

        site.publish(*list(session("a", 9))[:5])
        site.store = Wayward(site.memory, claim=slow, load=slow_load)
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(leaves_after_s)
        assert bus.sessions
        await bus.close()
        site.workers.remove(bus)
        lease = await site.memory.claim(A, "the next worker")
        assert lease.ends.count == 0

    virtually(play)


def test_a_worker_that_hangs_leaves_and_counts_as_ended_for_what_it_was_at() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:5], *list(session("b", 9))[:3])
        bus = site.worker()
        Listener(bus, every=100, stop_at=4)
        await asyncio.sleep(3)
        await bus.close(hung=True)
        site.workers.remove(bus)
        bus = site.worker()
        Listener(bus, every=100)
        await asyncio.sleep(5)
        ends = {held.session_id: held.lease.ends.count for held in bus.sessions if held.lease is not None}
        assert ends == {A: 0, B: 0}, "cleared once heard"
        assert max(event.processed_ms for event in site.told() if isinstance(event, Progress)) == 4

    virtually(play)


@pytest.mark.parametrize("hung", [False, True])
@pytest.mark.parametrize("in_time", [True, False], ids=["lets-go", "is-too-late"])
def test_who_leaves_in_time_or_not_counts_as_ended_only_for_what_it_hangs_at(in_time: bool, hung: bool) -> None:
    async def play(site: Site) -> None:
        async def release(lease: Lease) -> None:
            await asyncio.sleep(0.2)
            await site.memory.release(lease)

        site.store = Wayward(site.memory, release=release)
        site.publish(*list(session("b", 9))[:3])
        bus = site.worker()
        Listener(bus, every=100, stop_at=4)
        await asyncio.sleep(1)
        site.publish(*list(session("a", 9))[:5])
        await asyncio.sleep(1)
        member, leave = bus._membership, bus._membership.leave

        async def leave_too_late() -> None:
            bus._lost(sorted(bus.partitions))
            member._give_up = nothing
            await leave()

        async def nothing(numbers: Collection[int]) -> dict[int, int]:
            return {}

        if not in_time:
            member.leave = leave_too_late  # type: ignore[method-assign]
        await bus.close(hung=hung)
        site.workers.remove(bus)
        await asyncio.sleep(LEASE_S)
        ends = {one: (await site.memory.claim(one, "the next worker")).ends.count for one in (A, B)}
        assert ends == {A: int(hung), B: 0}

    virtually(play)
