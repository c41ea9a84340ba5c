"""A gateway of a cluster, with the real register that gateways share: it dies, drains, or loses its bus."""

import asyncio
from contextlib import suppress
from typing import Any

from streamscribe.bootstrap.cluster.number import GatewayNumber
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.core.errors import BusUnavailable, StoreUnavailable
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.records import Emitted, Record, WorkerEvent
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.ports import EventHandler
from tests.sim.broker import Broker, SimReader, SimSender, cancel_all
from tests.sim.clock import Node
from tests.sim.cluster import KAFKA, MAX_MESSAGE_BYTES, Cluster
from tests.sim.gateway import BACKLOG_S, Counts, GatewayProcess, InOrder
from tests.sim.pasts import SimPasts
from tests.sim.store import SEAT_TTL_S, StoreEnd

MAX_NEW_PER_MIN = 1000
KEEP_EVERY_S = SEAT_TTL_S / 3


class _GatewayEnd(KafkaGatewayBus):
    """The real one, with other means to reach the brokers."""

    def begin(self, broker: Broker, node: Node) -> None:
        sender: Any = SimSender(broker, node)
        self._read_to = broker.end(self._topics.results, self._reply_to)
        reader: Any = SimReader(broker, node, self._topics.results, self._reply_to, self._take)
        pasts: Any = SimPasts(broker, node, self._topics)
        sender.on_room = self._drain_all
        self.sim_sender: SimSender = sender
        self._sender, self._reader, self._pasts = sender, reader, pasts
        self._dead_letters = DeadLetters(sender, self._topics.dead_letter)
        self.stale: list[str] = []
        self._newest: dict[SessionId, int] = {}
        self._is_stale = False

    def attach_gateway(self, handler: EventHandler) -> None:
        def hear(event: WorkerEvent) -> None:
            if self._is_stale:
                self.stale.append(type(event).__name__)
            handler(event)

        super().attach_gateway(hear)

    def _deliver(self, event: Emitted, epoch: LeaseEpoch) -> None:
        self._newest[event.session_id] = newest = max(epoch, self._newest.get(event.session_id, epoch))
        self._is_stale = epoch < newest
        super()._deliver(event, epoch)
        self._is_stale = False


class KafkaSite(GatewayProcess):
    """A gateway of a cluster; `Cluster.close` is not its affair."""

    @classmethod
    async def start(cls, cluster: Cluster, had: int | None = None) -> "KafkaSite":
        """One more gateway; it waits for a number, often that which one before it `had`, and begins anew where the
        store fails."""
        rng = cluster.rng
        at = had if had is not None and rng.random() < 0.5 else rng.randrange(KAFKA.result_partitions)
        while True:
            name = f"gateway-{cluster.gateways}"
            cluster.gateways += 1
            node, store = Node(name), StoreEnd(cluster.store)
            end: Any = store
            claim = GatewayNumber(end, name, KEEP_EVERY_S, lambda count: at)
            with suppress(StoreUnavailable):
                return cls(cluster, name, node, store, claim, await node.spawn(claim.take(KAFKA)))
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    def __init__(
        self, cluster: Cluster, name: str, node: Node, store_end: StoreEnd, claim: GatewayNumber, number: int
    ) -> None:
        """It reads the partition of results of its number; often another one had it before."""
        self.cluster = cluster
        self.settings = cluster.gateway
        self._number = number
        self.processes = cluster.processes
        self.bus = _GatewayEnd(KAFKA, BACKLOG_S, MAX_MESSAGE_BYTES, number)
        self.bus.begin(cluster.broker, node)
        self._store, self._claim = store_end, claim
        store: Any = store_end
        self._seats = SeatKeeper(store, name, KEEP_EVERY_S, MAX_NEW_PER_MIN)
        self._mover = mover = Mover(self._seats, store, self.bus, name, every_s=1.0, behind_s=cluster.behind_s)
        late: Any = InOrder()
        mover._late = late
        super().__init__(name, node, self.bus, OpenDoor(), Counts(stale=self.bus.stale), mover, cluster.new_id)
        self._numberless = asyncio.Event()
        works = self._seats.run(), mover.run(), self._end_without_number()
        self._running = [node.spawn(work) for work in works]

    @property
    def max_sessions(self) -> int:  # type: ignore[override]
        """Of the cluster's."""
        return self.cluster.max_sessions

    def records(self, session_id: SessionId) -> list[Record]:
        return self.cluster.records(session_id)

    async def _end_without_number(self) -> None:
        """As `bootstrap.cluster.gateway`."""
        await self._claim.lost()
        await self._seats.keep()
        self._numberless.set()

    async def failed(self) -> None:
        await self._numberless.wait()

    async def follower(self) -> "KafkaSite":
        return await KafkaSite.start(self.cluster, self._number)

    def outage(self, until: float) -> None:
        self.cluster.outage_until = until

    def lose(self, what: str, until: float) -> None:
        match what:
            case "broker":
                self.cluster.broker.away_until = until
            case "empty":
                self.cluster.store.lose_all()
                self.cluster.store.away_until = until
            case "store":
                self.cluster.store.away_until = until

    async def die(self) -> None:
        """As SIGKILL: its connections break, and nothing that it had to say is said."""
        self.closed = self._store.dead = True
        for socket in list(self.sockets):
            socket.sever(0.0)
        self.node.thaw()
        await self.bus.sim_sender.fail()
        await self._end()

    async def lose_bus(self) -> None:
        """Its results cannot be read any more: it ends in good order."""
        reader = self.bus._reader
        assert reader is not None
        if not reader.failed.done():
            reader.failed.set_result(BusUnavailable())
            await reader.stop()
            await self.close()

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.node.thaw()
            await self._end()

    async def _end(self) -> None:
        await self.node.spawn(self._end_inside())
        await self._close_connections()
        self.counts.fenced, self.counts.moved_here = self.bus.fenced, self._mover.taken

    async def _end_inside(self) -> None:
        await self.hub.close()
        await self._seats.close()
        await cancel_all(self._running)
        await self.bus.close()
        await self._claim.free()

    def check_integrity(self) -> None:
        super().check_integrity()
        self.bus.check_integrity()
