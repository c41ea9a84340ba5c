"""What a bus promises when workers end; an adapter's test module subclasses `TakeoverContract` and says how to make it.

A worker here is a `Listener`: it settles what it hears, and says from where another could go on.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Protocol

import pytest

from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.ids import SessionId
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Checkpointed,
    Finished,
    FlushRequested,
    Progress,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.ports import GatewayBus, WorkerBus
from tests.contracts.bus import Inbox, chunk, let_others_run, opened

CHUNK = bytes(3200)


def checkpoint(index: int) -> Checkpoint:
    return Checkpoint(index, 0, 0, 0, (), (), 0)


class Rig(Protocol):
    """A gateway's end, and workers that come and end."""

    gateway: GatewayBus

    async def start_worker(self) -> WorkerBus:
        """One more worker, which gets sessions from now on."""
        ...

    async def kill_worker(self, worker: WorkerBus) -> None:
        """Ends it as a killed process ends: nothing is said, nothing that waits is sent. Returns when it is noticed."""
        ...


class Listener:
    """A worker of one bus end. It tells `Progress` of each record, and every `every` records a checkpoint behind it.

    At record `stop_at` it stops before that is settled, and `stopped` is set; None: never.
    """

    def __init__(self, bus: WorkerBus, every: int = 5, stop_at: int | None = None) -> None:
        self.bus = bus
        self.every = every
        self.stop_at = stop_at
        self.stopped = asyncio.Event()
        self.heard: dict[SessionId, list[Record]] = defaultdict(list)
        bus.attach_worker(self.hear)

    def hear(self, record: Record) -> None:
        if self.stopped.is_set():
            return
        session_id = record.session_id
        self.heard[session_id].append(record)
        if record.index == self.stop_at:
            self.stopped.set()
            return
        self.bus.emit(Progress(session_id, record.index))
        if record.index and record.index % self.every == 0:
            self.bus.emit(Checkpointed(session_id, checkpoint(record.index + 1)))
        self.bus.settle(session_id, len(record.data) if isinstance(record, AudioChunk) else 0)
        if isinstance(record, AudioEnded):
            self.bus.emit(Finished(session_id, 0))


class Ear(Inbox):
    """The gateway's side: what it was told of each session."""

    async def finished(self, *names: str) -> None:
        while not all(any(isinstance(event, Finished) for event in self.of(name)) for name in names):
            await self.wait_for(len(self.items) + 1)

    def progress(self, name: str) -> set[int]:
        return {event.processed_ms for event in self.of(name) if isinstance(event, Progress)}


def session(name: str, chunks: int) -> Iterator[Record]:
    """A whole session: chunks with a flush among them, and its end."""
    yield opened(name)
    for index in range(1, chunks + 1):
        yield FlushRequested(SessionId(name), index, "m") if index % 7 == 0 else chunk(name, index, CHUNK)
    yield AudioEnded(SessionId(name), chunks + 1)


def assert_goes_on(heard: list[Record], published: list[Record]) -> None:
    """A worker heard the session from its checkpoint on, in order and without a gap, to its end."""
    first, *records = heard
    assert isinstance(first, SessionOpened)
    begins_at = first.checkpoint.index if first.checkpoint else 1
    assert records == published[begins_at : begins_at + len(records)]
    assert first.options == opened("any").options


async def taken_over(rig: Rig, at: int) -> list[Record]:
    """A worker ends at a record of a session, and the next misses nothing and finishes it: what the next one heard."""
    rig.gateway.attach_gateway(ear := Ear())
    first = Listener(await rig.start_worker(), stop_at=at)
    published = list(session("a", 20))
    for record in published:
        await rig.gateway.publish(record)
    await first.stopped.wait()
    await rig.kill_worker(first.bus)
    second = Listener(await rig.start_worker())
    await ear.finished("a")
    heard = second.heard[SessionId("a")]
    assert_goes_on(heard, published)
    assert heard[-1] == published[-1]
    assert ear.progress("a") == set(range(22))
    return heard


class TakeoverContract:
    """The suite. `make_rig` gives a gateway's end without workers, and closes all afterwards."""

    @asynccontextmanager
    async def make_rig(self, max_backlog_s: float) -> AsyncIterator[Rig]:
        raise NotImplementedError
        yield

    @pytest.mark.parametrize("at", [0, 1, 4, 5, 6, 21])
    async def test_at_whichever_record_a_worker_ends_the_next_misses_nothing(self, at: int) -> None:
        async with self.make_rig(30) as rig:
            first, *_ = await taken_over(rig, at)
            assert isinstance(first, SessionOpened)
            assert first.checkpoint == (checkpoint(1 + (at - 1) // 5 * 5) if at > 5 else None)

    async def test_workers_may_end_again_and_again_also_while_they_replay(self) -> None:
        rng = random.Random(11)
        names = ["a", "b", "c"]
        async with self.make_rig(30) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            published = {name: list(session(name, 40)) for name in names}

            async def publish(name: str) -> None:
                for record in published[name]:
                    await rig.gateway.publish(record)
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    tasks.create_task(publish(name))
                for stop_at in (3, 9, 9, 14, 27, 33, 38):
                    listener = Listener(await rig.start_worker(), rng.randrange(2, 9), stop_at)
                    await listener.stopped.wait()
                    await rig.kill_worker(listener.bus)
                    for name in names:
                        if heard := listener.heard.get(SessionId(name)):
                            assert_goes_on(heard, published[name])
            last = Listener(await rig.start_worker())
            await ear.finished(*names)
            for name in names:
                assert_goes_on(last.heard[SessionId(name)], published[name])
                assert ear.progress(name) == set(range(42))

    async def test_publishers_that_wait_while_no_worker_is_there_go_on_in_their_order(self) -> None:
        async with self.make_rig(0.25) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker(), stop_at=1)
            published = list(session("a", 12))
            await rig.gateway.publish(published[0])
            tasks = [asyncio.ensure_future(rig.gateway.publish(record)) for record in published[1:]]
            await first.stopped.wait()
            await let_others_run()
            assert not tasks[2].done()
            await rig.kill_worker(first.bus)
            assert not tasks[2].done()
            assert not rig.gateway.room(SessionId("a"), len(CHUNK))
            second = Listener(await rig.start_worker(), every=100)
            await ear.finished("a")
            await asyncio.gather(*tasks)
            assert_goes_on(second.heard[SessionId("a")], published)
            assert second.heard[SessionId("a")][1:] == published[1:]

    async def test_the_backlog_is_bounded_for_the_next_worker_too(self) -> None:
        async with self.make_rig(0.5) as rig:
            first = Listener(await rig.start_worker(), every=100)
            published = [opened("a"), *(chunk("a", index, CHUNK) for index in range(1, 11))]
            for record in published:
                await rig.gateway.publish(record)
            while len(first.heard[SessionId("a")]) < len(published):
                await asyncio.sleep(0)
            await rig.kill_worker(first.bus)
            assert not rig.gateway.room(SessionId("a"), len(CHUNK)), "ten chunks are to be heard again"
            worker = await rig.start_worker()
            worker.attach_worker(inbox := Inbox())
            await inbox.wait_for(6)
            await let_others_run()
            assert [record.index for record in inbox.items] == [0, 1, 2, 3, 4, 5]
            worker.settle(SessionId("a"), 0)
            for index in range(1, 11):
                worker.settle(SessionId("a"), len(CHUNK))
                await inbox.wait_for(min(index + 6, 11))
            await rig.gateway.publish(chunk("a", 11, CHUNK))
            assert [record.index for record in await inbox.wait_for(12)] == list(range(12))

    async def test_a_session_that_ends_while_no_worker_is_there_is_finished_by_the_next(self) -> None:
        async with self.make_rig(30) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker(), stop_at=3)
            published = list(session("a", 9))
            for record in published[:6]:
                await rig.gateway.publish(record)
            await first.stopped.wait()
            await rig.kill_worker(first.bus)
            for record in published[6:]:
                await rig.gateway.publish(record)
            Listener(await rig.start_worker())
            await ear.finished("a")

    async def test_a_session_that_was_abandoned_while_no_worker_was_there_comes_to_none(self) -> None:
        async with self.make_rig(0.25) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker(), stop_at=1)
            await rig.gateway.publish(opened("a"))
            waiting = [asyncio.ensure_future(rig.gateway.publish(chunk("a", index, CHUNK))) for index in range(1, 6)]
            await first.stopped.wait()
            await rig.kill_worker(first.bus)
            await rig.gateway.publish(SessionAbandoned(SessionId("a"), 6))
            await asyncio.gather(*waiting)
            second = Listener(await rig.start_worker())
            for record in session("b", 3):
                await rig.gateway.publish(record)
            await ear.finished("b")
            assert not any(isinstance(record, AudioChunk) for record in second.heard[SessionId("a")])

    async def test_a_finished_session_comes_to_no_other_worker(self) -> None:
        async with self.make_rig(30) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker())
            for record in session("a", 6):
                await rig.gateway.publish(record)
            await ear.finished("a")
            await rig.kill_worker(first.bus)
            second = Listener(await rig.start_worker())
            for record in session("b", 3):
                await rig.gateway.publish(record)
            await ear.finished("b")
            assert set(second.heard) == {SessionId("b")}

    async def test_sessions_of_other_workers_do_not_notice(self) -> None:
        async with self.make_rig(30) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            workers = [Listener(await rig.start_worker(), every=3) for _ in range(2)]
            names = [f"s{number}" for number in range(8)]
            published = {name: list(session(name, 12)) for name in names}
            for index in range(8):
                for name in names:
                    await rig.gateway.publish(published[name][index])
            await ear.wait_for(8 * len(names))
            await rig.kill_worker(workers[0].bus)
            for index in range(8, 14):
                for name in names:
                    await rig.gateway.publish(published[name][index])
            await ear.finished(*names)
            for name in names:
                whole = workers[1].heard[SessionId(name)]
                assert whole == published[name] if SessionId(name) not in workers[0].heard else whole[-1].index == 13
                assert_goes_on(whole, published[name])
