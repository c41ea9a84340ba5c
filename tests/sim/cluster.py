"""The brokers, the store and the workers of a cluster, librdkafka replaced by `broker`; `kafka_site` has gateways."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec

from streamscribe.bus.kafka.envelope import read_key, read_record_headers
from streamscribe.bus.kafka.mark import read_mark
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.bus.kafka.topics import Topics
from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.records import Record, SessionAbandoned, SessionOpened
from streamscribe.models.pool import Models
from streamscribe.ports import RecordHandler
from streamscribe.settings import KafkaSettings, WorkerSettings
from streamscribe.wire.bus_records import decode_record
from streamscribe.worker.runner import Worker
from tests.sim.broker import Broker, Message, SimSender
from tests.sim.clock import Node
from tests.sim.finals import FinalizerFleet, SimFinalizers
from tests.sim.gateway import GATEWAY, LIMITS, InOrder, WorkerProcess
from tests.sim.group import Group, SimMembership
from tests.sim.models import IsDeadlySegment, ends_at, models_of
from tests.sim.store import SEAT_TTL_S, SimStore, StoreEnd
from tests.worker.kit import TEXT, Recorder

KAFKA = KafkaSettings(brokers="simulated", audio_partitions=6, result_partitions=4, finalize_partitions=6)
TOPICS = Topics.of(KAFKA)
MAX_MESSAGE_BYTES = 2**22
BEHIND_S = 5.0
"""So old are marks of sessions in some runs: clients that are away for longer may miss results."""
ORPHANED_AFTER_S = LIMITS.resume_window_s + SEAT_TTL_S

IsDeadly = Callable[[Record], bool]
"""Whether a worker ends at a record."""


class _WorkerEnd(KafkaWorkerBus):
    """The real one, with other means to reach the brokers."""

    def begin(self, group: Group, node: Node) -> tuple[SimSender, SimMembership]:
        sender: Any = SimSender(group.broker, node)
        membership: Any = SimMembership(
            group, node, take=self._take, assigned=self._assigned, give_up=self._give_up, lost=self._lost
        )
        self._connect(sender, membership)
        self.killed = False
        """By a record, or in a step."""
        self.is_deadly: IsDeadly = lambda record: False
        self._node = node
        news: Any = InOrder()
        self._sessions.teller._news = news
        return sender, membership

    def attach_worker(self, handler: RecordHandler) -> None:
        def hear(record: Record) -> None:
            if not self.killed and not self.is_deadly(record):
                handler(record)
            elif not self.killed:
                self.end_at_once()

        super().attach_worker(hear)

    def end_at_once(self) -> None:
        """Nothing more runs in its process."""
        self.killed = True
        self._node.freeze()

    @property
    def over(self) -> bool:
        """Whether its process is, or has to end."""
        return self.killed or self._membership.failed.done()

    async def stop_tasks(self) -> None:
        """As the end of its process."""
        self._sessions.closed = True
        await self._sessions.cancel_tasks()


class KafkaWorker(WorkerProcess):
    """A real worker on the real end of the Kafka bus."""

    joined = True

    def __init__(
        self,
        node: Node,
        group: Group,
        store: SimStore,
        models: Models,
        is_deadly: IsDeadly,
        settings: WorkerSettings,
        asking: SimFinalizers | None,
        is_deadly_segment: IsDeadlySegment,
    ) -> None:
        """Without finalizers that it asks, it ends in a step for a segment that is deadly."""
        self._store = StoreEnd(store)
        end: Any = self._store
        self.bus = _WorkerEnd(KAFKA, end, MAX_MESSAGE_BYTES, orphaned_after_s=ORPHANED_AFTER_S)
        self._sender, self._membership = self.bus.begin(group, node)
        self.bus.is_deadly = is_deadly
        self.asking = asking
        if asking is None:
            ends_at(models, is_deadly_segment, self.bus.end_at_once)
        worker = Worker(self.bus, models, TEXT, settings, Recorder())
        self.bus.steps = worker.steps
        super().__init__(node, worker, models)

    async def end(self) -> None:
        self._sender.dead = self._membership.dead = self._store.dead = True
        if self.asking is not None:
            self.asking.sim_sender.dead = True
        self.node.thaw()
        await self._sender.kill()
        await self._membership.kill()
        await self.bus.stop_tasks()
        await self._stop_worker()
        if self.asking is not None:
            await self.asking.kill()

    async def leave(self) -> None:
        """As SIGTERM; it may end in a step meanwhile."""
        self.node.thaw()
        closing = self.node.spawn(self.bus.close())
        while not closing.done() and not self.bus.killed:
            await asyncio.wait((closing,), timeout=0.1)
        if self.bus.killed:
            closing.cancel()
            return
        closing.result()
        await self._stop_worker()
        if self.asking is not None:
            await self.node.spawn(self.asking.disconnect())
            self.asking.check_integrity()


class Cluster:
    """The brokers, the store and `size` workers; one that ends is followed by another."""

    def __init__(
        self,
        rng: random.Random,
        size: int,
        is_deadly: IsDeadly,
        is_deadly_segment: IsDeadlySegment,
        *,
        finalizers: bool,
    ) -> None:
        """At a segment that is deadly finalizers end, where there are, and else workers."""
        self.processes: dict[int, WorkerProcess] = {}
        self.broker = Broker(rng, KAFKA.audio_partitions)
        self.group = Group(self.broker, TOPICS.audio)
        self.store = SimStore(rng)
        self.behind_s = rng.choice((30.0, BEHIND_S))
        self.gateway = GATEWAY.model_copy(update={"drain_timeout_s": rng.choice((3.0, 3.0, GATEWAY.drain_timeout_s))})
        """Its gateways' settings: some wait for the ends of most sessions, some leave them to others."""
        self.outage_until = 0.0
        self.gateways = 0
        self.taken_over = 0
        """Sessions that workers that have ended took over from others."""
        self.blamed: set[SessionId] = set()
        """Sessions at which workers ended, as workers say."""
        self.max_sessions = 100
        """So many may its gateways' only tenant have."""
        self.most_seats = 0
        """That were seen taken at a time."""
        self.killed: set[str] = set()
        """The owners' names of workers that ended by what is deadly."""
        self.rng = rng
        self._is_deadly, self._is_deadly_segment = is_deadly, is_deadly_segment
        self.finalizers: FinalizerFleet | None = None
        if finalizers:
            self.finalizers = FinalizerFleet(self.broker, self.store, KAFKA, TOPICS.finalize, is_deadly_segment)
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(number)) for number in range(size)]

    def new_id(self, tenant: TenantId) -> SessionId:
        """As random as the seed is."""
        return SessionId(f"s{self.rng.getrandbits(64):016x}")

    async def _keep(self, number: int) -> None:
        loop, rng, lives = asyncio.get_running_loop(), self.rng, 0
        while True:
            while loop.time() < self.outage_until:
                await asyncio.sleep(self.outage_until - loop.time())
            node = Node(f"worker-{number}-{lives}")
            lives += 1
            process = self.processes[number] = self._worker(node)
            try:
                while process.cause != "moved" and not process.ended and not process.bus.over:
                    await asyncio.sleep(0.1)
                if process.cause == "moved" and not process.ended:
                    await process.leave()
            finally:
                del self.processes[number]
                await asyncio.shield(process.end())
                self.taken_over += process.bus.taken_over
                if process.bus.killed:
                    self.killed.add(process.bus.owner)
                if self.finalizers is not None and process.asking is not None:
                    self.finalizers.count(process.asking)
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    def _worker(self, node: Node) -> KafkaWorker:
        fleet, settings, cost_s = self.finalizers, WorkerSettings(), self.rng.choice((0.002, 0.02, 0.2))
        elsewhere = asking = None
        if fleet is not None:
            settings = fleet.habits.worker
            elsewhere, asking = fleet.recognition(node)
        models = models_of(self.rng, first_pass=True, cost_s=cost_s, elsewhere=elsewhere)
        worker = KafkaWorker(
            node, self.group, self.store, models, self._is_deadly, settings, asking, self._is_deadly_segment
        )
        worker.bus.on_quarantined = lambda session_id, trace_id, index: self.blamed.add(session_id)
        return worker

    async def is_idle(self, within_s: float) -> bool:
        """Waits until no worker has a session; False where that takes too long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while any(process.worker.sessions for process in self.processes.values()):
            if loop.time() > until:
                return False
            await asyncio.sleep(0.5)
        return self.finalizers is None or await self.finalizers.is_idle(until - loop.time())

    def records(self, session_id: SessionId) -> list[Record]:
        """What gateways that had the session in turn have put into the log."""
        generation, found = 0, list[Record]()
        for message in self._messages(TOPICS.audio, partition_of(session_id, KAFKA.audio_partitions)):
            if read_mark(message.headers()) is not None or read_key(message.key()) != session_id:
                continue
            of = read_record_headers(message.headers(), KAFKA.result_partitions).generation
            record = decode_record(message.value())
            if of < generation or isinstance(record, SessionAbandoned):
                continue
            generation = of
            stored_twice = record.index < len(found) and found[record.index] == record
            if not stored_twice and not (of and isinstance(record, SessionOpened)):
                found.append(record)
        return found

    def quarantined(self) -> set[SessionId]:
        """Sessions that the dead-letter topic names."""
        letters = [one for n in range(KAFKA.audio_partitions) for one in self._messages(TOPICS.dead_letter, n)]
        return {SessionId(msgspec.json.decode(letter.value())["session_id"]) for letter in letters}

    def _messages(self, topic: str, partition: int) -> list[Message]:
        return self.broker.read(topic, partition, 0, self.broker.end(topic, partition))

    async def close(self) -> None:
        """Ends everything; nothing may be left."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)
        await self.group.close()
        if self.finalizers is not None:
            await self.finalizers.close()
        for keeper in self._keepers:
            if not keeper.cancelled():
                keeper.result()

    def check_integrity(self) -> None:
        """All ledgers' equations."""
        self.store.sessions.check_integrity()
        self.most_seats = max(self.most_seats, self.store.seats)
        for process in self.processes.values():
            if not process.node.frozen and isinstance(process, KafkaWorker):
                process.worker.check_integrity()
                process.bus.check_integrity()
                if process.asking is not None:
                    process.asking.check_integrity()
        if self.finalizers is not None:
            self.finalizers.check_integrity()
