"""Who waits for room in a stage: let in one by one, in order, and nobody asks in vain again and again."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.batching import Priority
from streamscribe.core.errors import ModelUnavailable, Overloaded
from streamscribe.core.gate import Gate
from streamscribe.models.room import Room
from tests.models.replica_kit import Bench


class Hall:
    """A gate of so many places, whose room is waited for."""

    def __init__(self, places):
        self.gate = Gate(places)
        self.room = Room()
        self.inside = []
        self.attempts = 0
        self.broken = False

    async def enter(self, name, priority=Priority.URGENT, tenant=None):
        await self.room.enter(priority, lambda: self._attempt(name, priority), tenant)

    def _attempt(self, name, priority):
        self.attempts += 1
        if self.broken:
            raise ModelUnavailable("broken")
        if refusal := self.gate.enter(priority, 0.0):
            raise refusal
        self.inside.append(name)

    def leave(self):
        self.gate.leave(0.0)
        self.room.freed()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_where_there_is_room_nobody_waits():
    hall = Hall(2)
    await hall.enter("a")
    await hall.enter("b")
    assert hall.inside == ["a", "b"]


async def test_who_waits_is_let_in_in_order_of_arrival_and_nobody_else_tries_for_one_place():
    hall = Hall(1)
    await hall.enter("first")
    waiting = [asyncio.create_task(hall.enter(name)) for name in range(100)]
    await settle()
    before = hall.attempts
    for turn in range(100):
        hall.leave()
        await settle()
        assert hall.inside == ["first", *range(turn + 1)]
    await asyncio.gather(*waiting)
    assert hall.attempts - before <= 200  # the one who comes in, and the next one, who finds no room


async def test_tenants_come_in_in_turn_however_many_of_one_wait():
    hall = Hall(1)
    await hall.enter("first")
    crowd = [asyncio.create_task(hall.enter(name, tenant="a")) for name in range(50)]
    await settle()
    others = [asyncio.create_task(hall.enter(name, tenant="b")) for name in ("x", "y")]
    await settle()
    crowd[1].cancel()
    for _ in range(5):
        await settle()
        hall.leave()
    await settle()
    assert hall.inside == ["first", 0, "x", 2, "y", 3]
    for _ in range(46):
        hall.leave()
        await settle()
    await asyncio.gather(*others, *crowd, return_exceptions=True)
    assert len(hall.inside) == 52


async def test_files_that_wait_keep_no_live_session_out():
    hall = Hall(4)
    await hall.enter("file", Priority.BULK)
    await hall.enter("file", Priority.BULK)
    file = asyncio.create_task(hall.enter("another file", Priority.BULK))
    await settle()
    await hall.enter("live")
    assert not file.done()
    hall.leave()
    hall.leave()
    await file


async def test_who_comes_later_does_not_pass_who_waits():
    hall = Hall(1)
    await hall.enter("first")
    waiting = asyncio.create_task(hall.enter("second"))
    await settle()
    hall.gate.leave(0.0)
    late = asyncio.create_task(hall.enter("third"))
    await settle()
    hall.room.freed()
    await waiting
    assert hall.inside == ["first", "second"]
    late.cancel()


async def test_the_next_one_is_asked_when_the_first_in_line_gives_up():
    hall = Hall(1)
    await hall.enter("a")
    first, second = [asyncio.create_task(hall.enter(name)) for name in "bc"]
    await settle()
    hall.leave()
    first.cancel()
    await second
    assert hall.inside == ["a", "c"]


async def test_when_the_stage_breaks_all_who_wait_hear_of_it():
    hall = Hall(1)
    await hall.enter("a")
    waiting = [asyncio.create_task(hall.enter(name)) for name in range(3)]
    await settle()
    hall.broken = True
    hall.room.freed()
    for one in waiting:
        with pytest.raises(ModelUnavailable):
            await one


@given(st.lists(st.sampled_from(["live", "file", "leave", "cancel"]), max_size=40), st.integers(1, 4))
def test_nobody_waits_beside_room_that_he_may_have(events, places):
    async def play():
        hall, waiting = Hall(places), {Priority.URGENT: [], Priority.BULK: []}
        for number, event in enumerate(events):
            if event in ("live", "file"):
                priority = Priority.URGENT if event == "live" else Priority.BULK
                waiting[priority].append(asyncio.create_task(hall.enter(number, priority)))
            elif event == "leave" and hall.gate.requests:
                hall.leave()
            elif event == "cancel" and (all_ := [*waiting[Priority.URGENT], *waiting[Priority.BULK]]):
                all_[number % len(all_)].cancel()
            await settle()
            hall.gate.check_integrity()
            for priority, tasks in waiting.items():
                if any(not task.done() for task in tasks):
                    assert hall.gate.enter(priority, 0.0) is not None
        for task in (*waiting[Priority.URGENT], *waiting[Priority.BULK]):
            task.cancel()

    asyncio.run(play())


async def test_a_patient_request_waits_until_the_step_has_taken_the_one_before():
    bench = Bench(max_batch_size=1, max_waiting_s=1.0)
    running = await bench.occupy()
    waiting = bench.submit(1)
    await settle()
    with pytest.raises(Overloaded):
        await bench.submit(2)
    patient = [bench.submit(number, patient=True) for number in (3, 4)]
    await settle()
    bench.engine.gate.set()
    assert [await one for one in (running, waiting, *patient)] == [0, 2, 6, 8]
    bench.replica.close()


async def test_a_patient_request_hears_that_the_model_stops():
    bench = Bench(max_batch_size=1, max_waiting_s=1.0)
    running, waiting = await bench.occupy(), bench.submit(1)
    await settle()
    patient = bench.submit(2, patient=True)
    await settle()
    closing = threading.Thread(target=bench.replica.close)
    closing.start()
    with pytest.raises(ModelUnavailable):
        await patient
    with pytest.raises(ModelUnavailable):
        await waiting
    bench.engine.gate.set()
    assert await running == 0
    await asyncio.to_thread(closing.join)
