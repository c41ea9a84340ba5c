"""Gateways and workers over the Kafka bus and a session store, its librdkafka replaced by `broker`."""

import asyncio
import random
from functools import partial
from typing import Any

from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.core.errors import StoreUnavailable
from streamscribe.gateway.door import OpenDoor
from streamscribe.models.pool import Models
from streamscribe.settings import KafkaSettings, WorkerSettings
from streamscribe.store.memory_sessions import MemorySessions
from streamscribe.worker.runner import Worker
from tests.sim.broker import Broker, SimReader, SimSender
from tests.sim.clock import Node
from tests.sim.gateway import BACKLOG_S, Counts, GatewayProcess, WorkerProcess
from tests.sim.group import Group, SimMembership
from tests.sim.models import models_of
from tests.worker.kit import TEXT, Recorder

KAFKA = KafkaSettings(brokers="simulated", audio_partitions=6, result_partitions=64)
MAX_MESSAGE_BYTES = 2**22
LEASE_TTL_S = 2.0


class UnsureStore:
    """The session store over a network: slow, at times away, and at times what it did is not told."""

    def __init__(self, store: MemorySessions, rng: random.Random) -> None:
        self.away_until = 0.0
        self._store = store
        self._rng = rng
        self._unsure = rng.choice((0.0, 0.0, 0.05, 0.2))

    def __getattr__(self, method: str) -> Any:
        return partial(self._ask, getattr(self._store, method))

    async def _ask(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(self._rng.uniform(0, 0.01))
        if asyncio.get_running_loop().time() < self.away_until:
            await asyncio.sleep(0.2)
            raise StoreUnavailable
        unsure = self._rng.random() < self._unsure
        if unsure and self._rng.random() < 0.5:
            raise StoreUnavailable
        answer = await method(*args, **kwargs)
        await asyncio.sleep(self._rng.uniform(0, 0.01))
        if unsure:  # it was done, and nobody knows
            raise StoreUnavailable
        return answer


class _InOrder(dict[Any, None]):
    """A set in the order of coming: that of a set of objects depends on where they lie in memory."""

    def add(self, item: Any) -> None:
        self[item] = None


class _WorkerEnd(KafkaWorkerBus):
    """The real one, with other means to reach the brokers."""

    def begin(self, group: Group, node: Node) -> tuple[SimSender, SimMembership]:
        sender: Any = SimSender(group.broker, node)
        membership: Any = SimMembership(
            group, node, take=self._take, assigned=self._assigned, give_up=self._give_up, lost=self._lost
        )
        self._connect(sender, membership)
        news: Any = _InOrder()
        self._sessions.teller._news = news
        return sender, membership

    @property
    def unusable(self) -> bool:
        """Whether its process has to end."""
        return self._membership.failed.done()

    async def stop_tasks(self) -> None:
        """As the end of its process."""
        self._sessions.closed = True
        await self._stop_tasks()


class _GatewayEnd(KafkaGatewayBus):
    def begin(self, broker: Broker, node: Node) -> None:
        sender: Any = SimSender(broker, node)
        reader: Any = SimReader(broker, node, self._topics.results, self._reply_to, self._take)
        sender.on_room = self._drain_all
        self._sender, self._reader = sender, reader
        self._dead_letters = DeadLetters(sender, self._topics.dead_letter)


class KafkaWorker(WorkerProcess):
    """A real worker on the real end of the Kafka bus."""

    joined = True

    def __init__(self, node: Node, group: Group, store: UnsureStore, models: Models) -> None:
        self.bus = _WorkerEnd(KAFKA, store, MAX_MESSAGE_BYTES)  # type: ignore[arg-type]  # all that the bus asks of it
        self._sender, self._membership = self.bus.begin(group, node)
        super().__init__(node, Worker(self.bus, models, TEXT, WorkerSettings(), Recorder()), models)

    async def end(self) -> None:
        self._sender.dead = self._membership.dead = True
        self.node.thaw()
        await self._sender.kill()
        await self._membership.kill()
        await self.bus.stop_tasks()
        await self._stop_worker()

    async def leave(self) -> None:
        """As SIGTERM."""
        self.node.thaw()
        await self.node.spawn(self.bus.close())
        await self._stop_worker()


class Cluster:
    """The brokers, the store and `size` workers; one that ends is followed by another."""

    def __init__(self, rng: random.Random, size: int) -> None:
        self.processes: dict[int, WorkerProcess] = {}
        self.broker = Broker(rng, KAFKA.audio_partitions)
        self.group = Group(self.broker, "audio-chunks")
        loop = asyncio.get_running_loop()
        leases = MemorySessions(lease_ttl_s=LEASE_TTL_S, seat_ttl_s=30, keep_s=600, clock=loop.time)
        self.store = UnsureStore(leases, rng)
        self.outage_until = 0.0
        self.gateways = 0
        self.open = 0
        self._rng = rng
        self._leases = leases
        self._keepers = [loop.create_task(self._keep(number)) for number in range(size)]

    async def _keep(self, number: int) -> None:
        loop, rng, lives = asyncio.get_running_loop(), self._rng, 0
        while True:
            while loop.time() < self.outage_until:
                await asyncio.sleep(self.outage_until - loop.time())
            node = Node(f"worker-{number}-{lives}")
            lives += 1
            models = models_of(rng, first_pass=True, cost_s=rng.choice((0.002, 0.02, 0.2)))
            process = self.processes[number] = KafkaWorker(node, self.group, self.store, models)
            try:
                while process.cause != "moved" and not process.ended and not process.bus.unusable:
                    await asyncio.sleep(0.1)
                if process.cause == "moved" and not process.ended:
                    await process.leave()
            finally:
                del self.processes[number]
                await asyncio.shield(process.end())
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    async def close(self) -> None:
        """Ends everything; nothing may be left."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)
        await self.group.close()
        for keeper in self._keepers:
            if not keeper.cancelled():
                keeper.result()

    def check_integrity(self) -> None:
        """All ledgers' equations."""
        self._leases.check_integrity()
        for process in self.processes.values():
            if not process.node.frozen and isinstance(process, KafkaWorker):
                process.worker.check_integrity()
                process.bus.check_integrity()


class KafkaSite(GatewayProcess):
    """A gateway of a cluster; the last one that closes takes the cluster with it."""

    def __init__(self, cluster: Cluster) -> None:
        number = cluster.gateways
        cluster.gateways += 1
        cluster.open += 1
        self.cluster = cluster
        self.processes = cluster.processes
        node = Node(f"gateway-{number}")
        self.bus = _GatewayEnd(KAFKA, BACKLOG_S, MAX_MESSAGE_BYTES, number)
        self.bus.begin(cluster.broker, node)
        super().__init__(f"gateway-{number}", node, self.bus, OpenDoor(), Counts())

    def follower(self, rng: random.Random) -> "KafkaSite":
        return KafkaSite(self.cluster)

    def outage(self, until: float) -> None:
        self.cluster.outage_until = until

    def lose(self, what: str, until: float) -> None:
        part = self.cluster.store if what == "store" else self.cluster.broker
        part.away_until = until

    async def close(self) -> None:
        self.node.thaw()
        await self.hub.close()
        await self.node.spawn(self.bus.close())
        await self._close_connections()
        self.counts.fenced = self.bus.fenced
        self.cluster.open -= 1
        if not self.cluster.open:
            await self.cluster.close()

    def check_integrity(self) -> None:
        super().check_integrity()
        self.bus.check_integrity()
        self.cluster.check_integrity()
