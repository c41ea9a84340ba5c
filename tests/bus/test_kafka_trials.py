"""Workers that end in a model's step for what they have settled: who is to blame is found, and nobody else pays."""

import asyncio
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from streamscribe.bus.kafka.trial import TURN_S, to_try
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import NO_ENDS
from streamscribe.core.records import Record
from tests.bus.kafka_site import LEASE_S, Site, Wayward, seat, virtually
from tests.contracts.takeover import Listener, session
from tests.sim.cluster import _WorkerEnd

SUSPECTS = 50


class Fuse(Listener):
    """A worker that settles all at once; a step of `step_s` for each record of `stepped` comes after that.

    It ends in the step for `fatal`.
    """

    def __init__(
        self, bus: _WorkerEnd, fatal: Record | None, step_s: float, stepped: frozenset[int], every: int = 1000
    ) -> None:
        self.fatal, self.step_s, self.stepped = fatal, step_s, stepped
        self.heard_at: dict[SessionId, list[float]] = defaultdict(list)
        self.steps: dict[asyncio.TimerHandle, SessionId] = {}
        bus.steps = lambda session_id: frozenset(step for step, of in self.steps.items() if of == session_id)
        super().__init__(bus, every)

    def hear(self, record: Record) -> None:
        loop = asyncio.get_running_loop()
        if not self.stopped.is_set() and record.index in self.stepped:
            handle = loop.call_later(self.step_s, lambda: self.over(handle, record))
            self.steps[handle] = record.session_id
        if not self.stopped.is_set():
            self.heard_at[record.session_id].append(loop.time())
        super().hear(record)

    def over(self, handle: asyncio.TimerHandle, record: Record) -> None:
        if record == self.fatal:
            self.end()
        else:
            del self.steps[handle]

    def end(self) -> None:
        """Nothing more runs in its process."""
        self.stopped.set()
        for handle in self.steps:
            handle.cancel()


async def until_nobody_ends(
    site: Site, fatal: Record, step_s: float, stepped: frozenset[int], every: int = 1000, most: int = 12
) -> list[Fuse]:
    """The workers, one after the other; all but the last one end."""
    fuses = []
    for _ in range(most):
        bus = site.worker()
        fuse = Fuse(bus, fatal, step_s, stepped, every)
        fuses.append(fuse)
        try:
            async with asyncio.timeout(40 + 20 * step_s):
                await fuse.stopped.wait()
        except TimeoutError:
            return fuses
        await site.crash(bus)
    raise AssertionError("workers end for ever")


@pytest.mark.parametrize("step_s", [0.02, 0.3, 1.5, 15.0])
@pytest.mark.parametrize("speaks", [False, True], ids=["all-is-said", "speaks-on"])
def test_who_ends_workers_in_a_step_for_what_was_settled_is_found_and_nobody_else_is_blamed(
    step_s: float, speaks: bool
) -> None:
    async def play(site: Site) -> None:
        names = "abcdef"
        said = {name: iter(session(name, 400)) for name in names}
        for _ in range(12):
            site.publish(*(next(said[name]) for name in names))

        async def speak() -> None:
            while True:
                await asyncio.sleep(max(0.1, step_s / 10))
                site.publish(*(record for name in names if (record := next(said[name], None)) is not None))

        loop = asyncio.get_running_loop()
        keeping = loop.create_task(site.keep(10_000, *(seat(SessionId(name)) for name in names)))
        speaking = loop.create_task(speak()) if speaks else None
        fatal = list(session("c", 20))[9]
        ended = len(await until_nobody_ends(site, fatal, step_s, frozenset({3, 9, 15}))) - 1
        assert ended == 5, "two unseen, one on trial, two at the record alone"
        if speaking is not None:
            speaking.cancel()
        site.publish(*(record for name in names for record in said[name]))
        await asyncio.sleep(40)
        keeping.cancel()
        assert site.failures() == {"c": "quarantined"}
        assert site.quarantined == [("c", "t", 9)]
        assert site.finished() == set(names) - {"c"}

    virtually(play)


def test_of_many_suspects_none_waits_long_while_the_one_that_ends_workers_is_found() -> None:
    async def play(site: Site) -> None:
        names = [f"s{number}" for number in range(SUSPECTS)]
        said = {name: iter(session(name, 400)) for name in names}
        for _ in range(20):
            site.publish(*(next(said[name]) for name in names))

        async def speak() -> None:
            for _ in range(300):
                await asyncio.sleep(0.2)
                site.publish(*(next(said[name]) for name in names))

        speaking = asyncio.get_running_loop().create_task(speak())
        fatal = list(session("s30", 20))[9]
        fuses = await until_nobody_ends(site, fatal, 0.3, frozenset({3, 9, 15}))
        await speaking
        assert site.quarantined == [("s30", "t", 9)]
        for name in set(names) - {"s30"}:
            heard_at = sorted(at for fuse in fuses for at in fuse.heard_at[SessionId(name)])
            longest_s = max(later - sooner for sooner, later in pairwise(heard_at))
            assert longest_s < SUSPECTS * TURN_S + 3 * LEASE_S, name

    virtually(play)


@pytest.mark.parametrize(
    ("places", "tried"),
    [((), False), ((None,), False), ((None, None), True), ((7,), True), ((7, None), True), ((None, None, 7), True)],
)
def test_a_session_is_tried_after_two_ends_or_one_on_trial(places: tuple[int | None, ...], *, tried: bool) -> None:
    ends = NO_ENDS
    for place in places:
        ends = ends.ended(place)
    assert to_try(ends) == tried


def test_who_ends_a_worker_on_its_trial_stays_on_trial_though_it_had_told_a_checkpoint_there() -> None:
    async def play(site: Site) -> None:
        async def note(*noted: Any) -> None:
            await asyncio.sleep(0.01)
            await site.memory.note(*noted)

        site.store = Wayward(site.memory, note=note)
        said = [list(session(name, 20)) for name in ("b", "a", "c")]
        for records in zip(*(records[:12] for records in said), strict=True):
            site.publish(*records)
        for _ in range(2):
            bus = site.worker()
            await Listener(bus, stop_at=0).stopped.wait()
            await site.crash(bus)
        fatal = list(session("b", 20))[9]
        ended = len(await until_nobody_ends(site, fatal, 0.02, frozenset({9}), every=4)) - 1
        site.publish(*(record for records in said for record in records[12:]))
        await asyncio.sleep(2)
        assert site.quarantined == [("b", "t", 9)]
        assert ended == 4, "one on trial, one at the record before its checkpoint was saved, two after"
        assert site.finished() == {"a", "c"}

    virtually(play)


def test_who_had_its_turn_is_not_blamed_for_where_it_was_then_when_a_worker_ends_later() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:6])
        for _ in range(4):
            bus = site.worker()
            fuse = Fuse(bus, None, 30.0, frozenset({5}))
            await asyncio.sleep(LEASE_S + 1 + 2 * TURN_S)
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        Fuse(bus, None, 30.0, frozenset({5}))
        await asyncio.sleep(LEASE_S + 1)
        (held,) = bus.sessions
        assert held.lease is not None
        assert (held.lease.ends.count, held.lease.ends.same, held.lease.ends.at) == (4, 1, 5)
        await asyncio.sleep(60)
        assert not site.quarantined

    virtually(play)


def test_who_had_its_turn_is_not_blamed_for_the_record_that_comes_after_it_either() -> None:
    async def play(site: Site) -> None:
        said = list(session("a", 9))
        site.publish(*said[:6])
        for life in range(4):
            bus = site.worker()
            fuse = Fuse(bus, None, 30.0, frozenset({5} if life < 3 else {6}))
            await asyncio.sleep(LEASE_S + 1 + 2 * TURN_S)
            if life == 2:
                site.publish(said[6])
                await asyncio.sleep(0.1)
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        Fuse(bus, None, 30.0, frozenset({6}))
        await asyncio.sleep(LEASE_S + 1)
        (held,) = bus.sessions
        assert held.lease is not None
        assert (held.lease.ends.count, held.lease.ends.same, held.lease.ends.at) == (4, 1, 6)
        assert not site.quarantined

    virtually(play)


@pytest.mark.parametrize("every", [3, 1000], ids=["checkpoints", "none"])
def test_who_is_through_after_its_turn_is_on_trial_no_more_though_a_checkpoint_has_reset_its_ends(every: int) -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:6])
        for life in range(3):
            bus = site.worker()
            fuse = Fuse(bus, None, 5.0, frozenset({5}), every if life == 2 else 1000)
            await asyncio.sleep(LEASE_S + (10 if life == 2 else 1))
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        Fuse(bus, None, 5.0, frozenset({5}))
        await asyncio.sleep(LEASE_S + 1)
        (held,) = bus.sessions
        assert held.lease is not None
        assert (held.lease.ends.count, held.lease.ends.at) == (1, None)

    virtually(play)


@pytest.mark.parametrize("ends", [1, 2], ids=["no-suspect", "suspect"])
def test_a_session_for_which_some_model_is_always_at_work_is_cleared_when_the_steps_for_its_former_records_are_over(
    ends: int,
) -> None:
    async def play(site: Site) -> None:
        said = iter(session("a", 1000))
        site.publish(*(next(said) for _ in range(12)))

        async def speak() -> None:
            while True:
                await asyncio.sleep(0.1)
                site.publish(next(said))

        speaking = asyncio.get_running_loop().create_task(speak())
        for _ in range(ends):
            bus = site.worker()
            fuse = Fuse(bus, None, 2.0, frozenset(range(1000)))
            await asyncio.sleep(LEASE_S + 1)
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        fuse = Fuse(bus, None, 2.0, frozenset(range(1000)))
        counts = []
        for _ in range(20):
            await asyncio.sleep(0.5)
            counts += [held.lease.ends.count for held in bus.sessions if held.lease is not None]
        assert fuse.steps
        assert counts[0] == ends, "not before they are over"
        assert counts[-1] == 0
        speaking.cancel()

    virtually(play)


def test_a_suspect_is_cleared_when_all_is_processed_and_no_step_is_under_way_any_more() -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:5])
        for _ in range(2):
            bus = site.worker()
            fuse = Fuse(bus, None, 5.0, frozenset({4}))
            await asyncio.sleep(LEASE_S + 1)
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        Fuse(bus, None, 5.0, frozenset({4}))
        ends = []
        for _ in range(12):
            await asyncio.sleep(1)
            ends += [held.lease.ends.count for held in bus.sessions if held.lease is not None]
        assert ends[:4] == [2] * 4
        assert ends[-1] == 0

    virtually(play)


def test_suspects_do_not_wait_for_each_other_where_no_model_is_at_work() -> None:
    async def play(site: Site) -> None:
        names = [f"s{number}" for number in range(100)]
        site.publish(*(record for name in names for record in list(session(name, 9))[:6]))
        for _ in range(2):
            bus = site.worker()
            Fuse(bus, None, 0.0, frozenset())
            await asyncio.sleep(0.5)
            await site.crash(bus)
        bus = site.worker()
        Fuse(bus, None, 0.0, frozenset())
        await asyncio.sleep(2 * LEASE_S)
        assert [held.lease.ends.count for held in bus.sessions if held.lease is not None] == [0] * len(names)

    virtually(play)


def test_a_suspect_with_slow_steps_has_a_short_turn_and_is_not_cleared_before_they_are_over() -> None:
    async def play(site: Site) -> None:
        names = [f"s{number}" for number in range(20)]
        site.publish(*(record for name in names for record in list(session(name, 9))[:6]))
        for _ in range(2):
            bus = site.worker()
            fuse = Fuse(bus, None, 30.0, frozenset({4}))
            await asyncio.sleep(LEASE_S + 1)
            fuse.end()
            await site.crash(bus)
        bus = site.worker()
        fuse = Fuse(bus, None, 30.0, frozenset({4}))
        await asyncio.sleep(LEASE_S + 1 + len(names) * TURN_S)
        assert {name: len(fuse.heard[SessionId(name)]) for name in names} == dict.fromkeys(names, 6)
        assert {held.lease.ends.count for held in bus.sessions if held.lease is not None} == {2}
        await asyncio.sleep(30)
        assert {held.lease.ends.count for held in bus.sessions if held.lease is not None} == {0}

    virtually(play)


@pytest.mark.parametrize("in_step", [True, False])
def test_who_hangs_in_a_step_for_what_it_has_settled_counts_as_ended_for_that(in_step: bool) -> None:
    async def play(site: Site) -> None:
        site.publish(*list(session("a", 9))[:5], *list(session("b", 9))[:3])
        bus = site.worker()
        fuse = Fuse(bus, None, 1000.0, frozenset({4} if in_step else ()))
        await asyncio.sleep(3)
        await bus.close(hung=True)
        fuse.end()
        site.workers.remove(bus)
        await asyncio.sleep(LEASE_S)
        ends = {one: (await site.memory.claim(SessionId(one), "the next worker")).ends.count for one in "ab"}
        assert ends == {"a": int(in_step), "b": 0}

    virtually(play)
