"""Workers that end in a model's step for what they have settled: who is to blame is found, whatever a step takes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streamscribe.bus.local.trials import MOST_ENDS
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import InternalError
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Failed, Record, SessionAbandoned
from tests.bus.local_rig import Rig, VirtualRig, a_rig
from tests.contracts.takeover import Listener, session
from tests.sim.clock import run_virtually

A = SessionId("a")


class Stepping(Listener):
    """A worker that settles all at once; a step of `step_s` for each record of `stepped` comes after that.

    It ends in the step for `fatal`.
    """

    def __init__(self, bus: LocalWorkerBus, step_s: float, stepped: set[int], fatal: Record | None = None) -> None:
        self.fatal, self.step_s, self.stepped = fatal, step_s, stepped
        self.steps: dict[asyncio.TimerHandle, SessionId] = {}
        bus.steps = lambda session_id: frozenset(step for step, of in self.steps.items() if of == session_id)
        super().__init__(bus, every=1000)

    def hear(self, record: Record) -> None:
        if not self.stopped.is_set() and record.index in self.stepped:
            handle = asyncio.get_running_loop().call_later(self.step_s, lambda: self.over(handle, record))
            self.steps[handle] = record.session_id
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


def virtually(play: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with a_rig(200, 200, VirtualRig) as rig:
            await play(rig)

    _, loop = run_virtually(main)
    assert not loop.failures


def quarantined(rig: Rig) -> list[object]:
    return [told[1] for told in rig.watch.told if told[0] == "quarantined"]


async def a_worker(rig: Rig, number: int, step_s: float, stepped: set[int], fatal: Record | None = None) -> Stepping:
    rig.chosen = number
    return Stepping(LocalWorkerBus(await rig.join(number)), step_s, stepped, fatal)


async def is_killed(rig: Rig, number: int, worker: Stepping) -> None:
    worker.end()
    rig.chosen = None
    await rig.kill(number)
    rig.gateway.check_integrity()


async def until_nobody_ends(rig: Rig, fatal: Record, step_s: float, most: int = 20) -> int:
    """How many workers end, one after the other."""
    for number in range(1, most):
        worker = await a_worker(rig, number, step_s, {3, 9, 15}, fatal)
        try:
            async with asyncio.timeout(3 * step_s + 20):
                await worker.stopped.wait()
        except TimeoutError:
            return number - 1
        await is_killed(rig, number, worker)
    raise AssertionError("workers end for ever")


@pytest.mark.parametrize("step_s", [0.02, 3.0, 15.0])
@pytest.mark.parametrize("names", ["c", "abcdef"])
@pytest.mark.parametrize("speaks", [False, True], ids=["all-is-said", "speaks-on"])
def test_who_ends_workers_in_a_step_for_what_was_settled_is_found_and_nobody_else_is_blamed(
    step_s: float, names: str, speaks: bool
) -> None:
    async def play(rig: Rig) -> None:
        said = {name: iter(session(name, 400)) for name in names}

        async def say(count: int) -> None:
            for _ in range(count):
                for name in names:
                    record = next(said[name], None)
                    if record is not None:
                        await rig.gateway.publish(record)

        async def speak() -> None:
            while True:
                await asyncio.sleep(1)
                await say(1)

        await say(12)
        speaking = asyncio.get_running_loop().create_task(speak()) if speaks else None
        assert await until_nobody_ends(rig, list(session("c", 20))[9], step_s) <= MOST_ENDS + 2
        if speaking is not None:
            speaking.cancel()
        assert quarantined(rig) == ["c"]
        await say(402)
        await rig.ear.finished(*(set(names) - {"c"}))

    virtually(play)


@pytest.mark.parametrize("names", ["a", "abc"])
def test_suspects_are_cleared_when_no_model_is_at_work_for_them_any_more_though_they_say_nothing_more(
    names: str,
) -> None:
    async def play(rig: Rig) -> None:
        for name in names:
            await rig.publish(name, 0, 5)
        number = 0
        for _ in range(3):
            for _ in range(MOST_ENDS - 1):  # of each round the last is on trial, and its steps are done
                number += 1
                worker = await a_worker(rig, number, 5.0, {4})
                await asyncio.sleep(1)
                await is_killed(rig, number, worker)
            number += 1
            worker = await a_worker(rig, number, 5.0, {4})
            await asyncio.sleep(30)
            assert rig.gateway.homeless == 0
            assert set(worker.heard) == set(names)
            await is_killed(rig, number, worker)
        assert not quarantined(rig)

    virtually(play)


@pytest.mark.parametrize("step_s", [0.3, 2.0])
def test_suspects_for_which_some_model_is_always_at_work_are_cleared_when_the_steps_for_their_records_are_over(
    step_s: float,
) -> None:
    async def play(rig: Rig) -> None:
        stepped, said = set(range(1000)), {name: iter(session(name, 1000)) for name in "ab"}

        async def speak() -> None:
            while True:
                for records in said.values():
                    await rig.gateway.publish(next(records))
                await asyncio.sleep(0.1)

        speaking = asyncio.get_running_loop().create_task(speak())
        for number in range(1, 4):
            worker = await a_worker(rig, number, step_s, stepped)
            await asyncio.sleep(3)
            await is_killed(rig, number, worker)
        worker = await a_worker(rig, 4, step_s, stepped)
        await asyncio.sleep(0.9 * step_s)
        assert len(worker.heard) == 1, "not before they are over"
        await asyncio.sleep(3 * step_s + 1)
        assert len(set(worker.steps.values())) == 2
        assert rig.gateway.homeless == 0
        speaking.cancel()

    virtually(play)


def test_who_has_no_model_at_work_is_not_blamed_however_many_workers_end() -> None:
    async def play(rig: Rig) -> None:
        await rig.publish("a", 0, 5)
        for number in range(1, MOST_ENDS + 3):
            worker = await a_worker(rig, number, 0.3, {4})
            await asyncio.sleep(1)
            await is_killed(rig, number, worker)
        assert not quarantined(rig)
        assert rig.gateway.homeless == 1

    virtually(play)


@pytest.mark.parametrize("end", ["finished", "failed", "abandoned"])
def test_a_session_that_is_over_is_looked_at_no_more(end: str) -> None:
    async def play(rig: Rig) -> None:
        bus, looks = LocalWorkerBus(await rig.join(1)), 0

        def steps(session_id: SessionId) -> frozenset[object]:
            nonlocal looks
            looks += 1
            return frozenset(("always the same",))

        bus.steps = steps
        Listener(bus, every=1000)
        await rig.publish("a", 0, 5)
        await asyncio.sleep(5)
        seen = looks
        assert seen > 6, "a worker looks whether it is at rest"
        if end == "finished":
            for record in list(session("a", 5))[6:]:
                await rig.gateway.publish(record)
        elif end == "failed":
            bus.emit(Failed(A, InternalError()))
        else:
            bus.attach_worker(lambda record: None)
            await rig.gateway.publish(SessionAbandoned(A, 6))
        await asyncio.sleep(1)
        seen = looks
        await asyncio.sleep(5)
        assert looks == seen

    virtually(play)
