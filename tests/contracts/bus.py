"""What every bus promises; an adapter's test module subclasses `BusContract` and says how to make one.

A bus of two ends is made of them as `Ends`. Nothing here needs a record or an event to arrive before the call that sent
it returns: it is waited for.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.errors import Draining, InternalError
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Emitted,
    Failed,
    Finished,
    FlushRequested,
    Progress,
    Record,
    SessionAbandoned,
    SessionOpened,
    WorkerEvent,
)
from streamscribe.ports import Bus, EventHandler, GatewayBus, RecordHandler, WorkerBus

ONE_SECOND = bytes(32_000)


def opened(name: str, audio: AudioFormat | None = None) -> SessionOpened:
    options = SessionOptions(audio=audio or AudioFormat())
    return SessionOpened(SessionId(name), 0, TenantId("default"), TraceId(f"trace-{name}"), options)


def chunk(name: str, index: int, data: bytes = ONE_SECOND) -> AudioChunk:
    return AudioChunk(SessionId(name), index, index, data)


class Inbox:
    """Collects what a bus delivers, so that a test can wait until it has come."""

    def __init__(self) -> None:
        self.items: list[Record | WorkerEvent] = []
        self._arrived = asyncio.Event()

    def __call__(self, item: Record | WorkerEvent) -> None:
        self.items.append(item)
        self._arrived.set()

    async def wait_for(self, count: int) -> list[Record | WorkerEvent]:
        while len(self.items) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.items

    def of(self, name: str) -> list[Record | WorkerEvent]:
        return [item for item in self.items if item.session_id == name]


@dataclass
class Ends:
    """`ports.Bus` made of two ends."""

    gateway: GatewayBus
    worker: WorkerBus

    @property
    def durability(self) -> str:
        return self.gateway.durability

    def room(self, session_id: SessionId, size_bytes: int) -> bool:
        return self.gateway.room(session_id, size_bytes)

    async def publish(self, record: Record) -> None:
        await self.gateway.publish(record)

    def attach_gateway(self, handler: EventHandler) -> None:
        self.gateway.attach_gateway(handler)

    def attach_worker(self, handler: RecordHandler) -> None:
        self.worker.attach_worker(handler)

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        self.worker.settle(session_id, size_bytes)

    def emit(self, event: Emitted) -> None:
        self.worker.emit(event)

    async def close(self) -> None:
        await self.gateway.close()
        await self.worker.close()


def told(event: Record | WorkerEvent) -> object:
    """The event, to be compared: errors are equal where class and words are."""
    if isinstance(event, Failed):
        return event.session_id, type(event.error), event.error.message
    return event


async def let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class BusContract:
    """The suite. `make_bus` gives a bus that is ready to publish and closes it afterwards."""

    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[Bus]:
        raise NotImplementedError
        yield

    async def test_records_of_a_session_arrive_in_the_order_they_were_published(self) -> None:
        async with self.make_bus(5) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            for index in range(1, 50):
                await bus.publish(chunk("a", index, b"12"))
            await bus.publish(AudioEnded(SessionId("a"), 50))
            assert [record.index for record in await inbox.wait_for(51)] == list(range(51))

    async def test_a_full_session_does_not_hold_up_another(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(opened("b"))
            await bus.publish(chunk("a", 1))
            blocked = asyncio.ensure_future(bus.publish(chunk("a", 2)))
            await bus.publish(chunk("b", 1))
            await inbox.wait_for(4)
            assert [record.index for record in inbox.of("b")] == [0, 1]
            assert not blocked.done()
            bus.settle(SessionId("a"), len(ONE_SECOND))
            await blocked

    async def test_publish_waits_while_the_backlog_is_full_and_room_says_so(self) -> None:
        async with self.make_bus(2) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            await bus.publish(chunk("a", 2))
            assert not bus.room(SessionId("a"), 1)
            waiting = asyncio.ensure_future(bus.publish(chunk("a", 3)))
            await let_others_run()
            assert not waiting.done()
            assert len(await inbox.wait_for(3)) == 3
            bus.settle(SessionId("a"), len(ONE_SECOND))
            await waiting
            assert [record.index for record in await inbox.wait_for(4)] == [0, 1, 2, 3]

    async def test_the_backlog_is_counted_in_seconds_of_the_sessions_own_format(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(Inbox())
            await bus.publish(opened("small", AudioFormat(Encoding.MULAW, 8000, 1)))
            await bus.publish(opened("large", AudioFormat(Encoding.PCM_F32, 48_000, 2)))
            await bus.publish(chunk("small", 1, bytes(7000)))
            await bus.publish(chunk("large", 1, bytes(7000)))
            assert bus.room(SessionId("small"), 1000)
            assert not bus.room(SessionId("small"), 1001)
            assert bus.room(SessionId("large"), 377_000)
            assert not bus.room(SessionId("large"), 377_001)

    async def test_publishers_that_wait_are_served_in_turn(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            waiting = [asyncio.ensure_future(bus.publish(chunk("a", index))) for index in (2, 3)]
            waiting.append(asyncio.ensure_future(bus.publish(FlushRequested(SessionId("a"), 4, "m"))))
            await let_others_run()
            for settled in (1, 2):
                await inbox.wait_for(settled + 1)
                bus.settle(SessionId("a"), len(ONE_SECOND))
                await waiting[settled - 1]
                assert not waiting[settled].done() or settled == 2
            await waiting[2]
            assert [record.index for record in await inbox.wait_for(5)] == [0, 1, 2, 3, 4]

    async def test_a_message_larger_than_the_bound_passes_when_nothing_else_is_unsettled(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1, bytes(320_000)))
            waiting = asyncio.ensure_future(bus.publish(chunk("a", 2, bytes(320_000))))
            await let_others_run()
            assert not waiting.done()
            await inbox.wait_for(2)
            bus.settle(SessionId("a"), 320_000)
            await waiting
            assert len(await inbox.wait_for(3)) == 3

    async def test_a_cancelled_publish_leaves_no_hole_and_no_harm(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            waiting = [asyncio.ensure_future(bus.publish(chunk("a", index))) for index in (2, 3)]
            await let_others_run()
            waiting[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            for arrived in (2, 3):
                await inbox.wait_for(arrived)
                bus.settle(SessionId("a"), len(ONE_SECOND))
            await waiting[1]
            assert [record.index for record in await inbox.wait_for(4)] == [0, 1, 2, 3]

    async def test_abandonment_overtakes_the_backlog_and_frees_its_publishers(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            waiting = asyncio.ensure_future(bus.publish(chunk("a", 2)))
            await inbox.wait_for(2)
            await bus.publish(SessionAbandoned(SessionId("a"), 3))
            await waiting
            assert [record.index for record in await inbox.wait_for(3)] == [0, 1, 3]

    @pytest.mark.parametrize("last", [Finished(SessionId("a"), 1000), Failed(SessionId("a"), InternalError())])
    async def test_a_session_that_is_over_holds_no_publisher_and_takes_no_record(self, last: Finished | Failed) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            bus.attach_gateway(events := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            waiting = asyncio.ensure_future(bus.publish(chunk("a", 2)))
            await inbox.wait_for(2)
            bus.emit(last)
            await waiting
            await bus.publish(chunk("a", 3))
            bus.settle(SessionId("a"), len(ONE_SECOND))
            assert [told(event) for event in await events.wait_for(1)] == [told(last)]
            await let_others_run()
            assert [record.index for record in inbox.items] == [0, 1]

    async def test_what_was_published_before_a_worker_came_is_delivered_to_it(self) -> None:
        async with self.make_bus(5) as bus:
            waiting = asyncio.ensure_future(bus.publish(opened("a")))
            await let_others_run()
            bus.attach_worker(inbox := Inbox())
            await waiting
            assert await inbox.wait_for(1) == [opened("a")]

    async def test_events_of_a_session_come_back_in_order(self) -> None:
        async with self.make_bus(5) as bus:
            bus.attach_worker(inbox := Inbox())
            bus.attach_gateway(events := Inbox())
            await bus.publish(opened("a"))
            await inbox.wait_for(1)
            sent = [Progress(SessionId("a"), ms) for ms in range(20)]
            for event in sent:
                bus.emit(event)
            assert await events.wait_for(20) == sent

    async def test_a_closed_bus_refuses_records_and_frees_publishers(self) -> None:
        async with self.make_bus(1) as bus:
            bus.attach_worker(inbox := Inbox())
            bus.attach_gateway(events := Inbox())
            await bus.publish(opened("a"))
            await bus.publish(chunk("a", 1))
            waiting = asyncio.ensure_future(bus.publish(chunk("a", 2)))
            await inbox.wait_for(2)
            await bus.close()
            with pytest.raises(Draining):
                await waiting
            with pytest.raises(Draining):
                await bus.publish(chunk("a", 3))
            bus.emit(Progress(SessionId("a"), 1))
            await let_others_run()
            assert [record.index for record in inbox.items] == [0, 1]
            assert events.items == []

    async def test_any_interleaving_of_sizes_cancels_and_settles_delivers_each_record_once(self) -> None:
        rng = random.Random(7)
        async with self.make_bus(0.5) as bus:
            unsettled: list[tuple[SessionId, int]] = []
            held, most = Counter[str](), Counter[str]()
            inbox = Inbox()

            def receive(record: Record) -> None:
                inbox(record)
                size = len(record.data) if isinstance(record, AudioChunk) else 0
                held[record.session_id] += size
                most[record.session_id] = max(most[record.session_id], held[record.session_id])
                unsettled.append((record.session_id, size))

            bus.attach_worker(receive)
            names = ["a", "b", "c"]
            for name in names:
                await bus.publish(opened(name))
            publishers: list[asyncio.Future[None]] = []
            indices = {name: itertools.count(1) for name in names}
            for _ in range(1, 200):
                name = rng.choice(names)
                record = chunk(name, next(indices[name]), bytes(rng.randrange(1, 9000)))
                publishers.append(asyncio.ensure_future(bus.publish(record)))
                await (let_others_run() if rng.random() < 0.5 else asyncio.sleep(0))  # so that it has begun
                if rng.random() < 0.2:
                    rng.choice(publishers).cancel()
                while unsettled and rng.random() < 0.6:
                    session_id, size = unsettled.pop(0)
                    held[session_id] -= size
                    bus.settle(session_id, size)

            def published() -> int:
                """At least so many, when all is delivered: one that is cancelled while it waits leaves its record."""
                return len(names) + sum(publisher.done() and not publisher.cancelled() for publisher in publishers)

            while not all(publisher.done() for publisher in publishers) or len(inbox.items) < published() or unsettled:
                await let_others_run()
                for session_id, size in unsettled[:]:
                    unsettled.pop(0)
                    held[session_id] -= size
                    bus.settle(session_id, size)
            assert max(most.values()) <= 16_000
            for name in names:
                came = [record.index for record in inbox.of(name)]
                assert came == list(range(len(came)))
