"""A log of one partition in virtual time, a store, and the worker's end of Kafka over both."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from streamscribe.bus.kafka.envelope import read_event_headers, record_headers
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.records import Checkpointed, Failed, Finished, Record, WorkerEvent
from streamscribe.ports import Kept, Seat, SessionStore
from streamscribe.store.memory_sessions import MemorySessions
from streamscribe.wire.bus_records import decode_event, encode_record
from tests.sim.broker import Broker
from tests.sim.clock import Node, VirtualLoop, run_virtually
from tests.sim.cluster import KAFKA as CLUSTER
from tests.sim.cluster import MAX_MESSAGE_BYTES, _WorkerEnd
from tests.sim.group import Group

A, B = SessionId("a"), SessionId("b")
KAFKA = CLUSTER.model_copy(update={"audio_partitions": 1})
TOPICS = Topics.of(KAFKA)
LEASE_S, ORPHANED_S = 2.0, 45.0


class Site:
    """A log of one partition, a store, and workers that come and end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.broker = Broker(random.Random(1), 1)
        self.group = Group(self.broker, "audio-chunks")
        self.memory = MemorySessions(lease_ttl_s=LEASE_S, seat_ttl_s=15, keep_s=600, clock=loop.time)
        self.store: Any = self.memory
        self.workers: list[_WorkerEnd] = []
        self.quarantined: list[tuple[SessionId, TraceId, int]] = []

    def worker(self) -> _WorkerEnd:
        bus = _WorkerEnd(KAFKA, self.store, MAX_MESSAGE_BYTES, orphaned_after_s=ORPHANED_S)
        bus.begin(self.group, Node(f"worker-{len(self.workers)}"))
        bus.on_quarantined = lambda *what: self.quarantined.append(what)
        self.workers.append(bus)
        return bus

    async def crash(self, bus: _WorkerEnd) -> None:
        """Nothing more comes of it, and what it has not sent is lost."""
        ends: Any = bus._sender, bus._membership
        for end in ends:
            end.dead = True
            await end.kill()
        await bus.stop_tasks()
        self.workers.remove(bus)

    def publish(self, *records: Record, reply_to: int = 0, generation: int = 0, left: tuple[int, ...] = ()) -> None:
        for record in records:
            headers = record_headers(reply_to, 0, "t", generation, left)
            self.broker.append(TOPICS.audio, 0, record.session_id, encode_record(record), headers)

    def told(self, reply_to: int = 0) -> list[WorkerEvent]:
        messages = self.broker.read(TOPICS.results, reply_to, 0, 100_000)
        events = [decode_event(one.value()) for one in messages if read_event_headers(one.headers()) is not None]
        return [event for event in events if not isinstance(event, Checkpointed)]

    def failures(self, reply_to: int = 0) -> dict[str, str]:
        return {event.session_id: event.error.code for event in self.told(reply_to) if isinstance(event, Failed)}

    def finished(self, reply_to: int = 0) -> set[SessionId]:
        return {event.session_id for event in self.told(reply_to) if isinstance(event, Finished)}

    @property
    def committed(self) -> int:
        return self.broker.committed.get((TOPICS.audio, 0), 0)

    async def keep(self, seconds: float, *seats: Seat) -> None:
        """A gateway that lives for so long."""
        for _ in range(int(seconds / 5)):
            for seat in seats:
                assert (await self.memory.keep([seat])) != [Kept.LOST]
            await asyncio.sleep(5)

    async def close(self) -> None:
        for worker in self.workers:
            worker.check_integrity()
            await worker.close()
        await self.group.close()


def virtually(play: Callable[[Site], Coroutine[Any, Any, None]]) -> VirtualLoop:
    async def main() -> None:
        site = Site()
        await play(site)
        await site.close()

    _, loop = run_virtually(main)
    return loop


def seat(session_id: SessionId) -> Seat:
    return Seat(session_id, TenantId("default"), session_id, "g1")


class Wayward:
    """The store, of which some calls are as `answers` says."""

    def __init__(self, store: SessionStore, **answers: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._store = store
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        return self.answers.get(name) or getattr(self._store, name)


async def away(*args: Any, **kwargs: Any) -> Any:
    raise StoreUnavailable
