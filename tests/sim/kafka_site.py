"""A gateway of a cluster, with the real register that gateways share: it dies, drains, or loses its bus."""

import random
from typing import Any

from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.core.errors import BusUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Record
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from tests.sim.broker import Broker, SimReader, SimSender, cancel_all
from tests.sim.clock import Node
from tests.sim.cluster import KAFKA, MAX_MESSAGE_BYTES, Cluster
from tests.sim.gateway import BACKLOG_S, Counts, GatewayProcess, InOrder
from tests.sim.pasts import SimPasts
from tests.sim.store import SEAT_TTL_S, StoreEnd

MAX_NEW_PER_MIN = 1000


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


class KafkaSite(GatewayProcess):
    """A gateway of a cluster; `Cluster.close` is not its affair."""

    def __init__(self, cluster: Cluster) -> None:
        """It reads a partition of results that no gateway has now; often one had it before."""
        self._number = cluster.take_number()
        name = f"gateway-{self._number}-{cluster.gateways}"
        cluster.gateways += 1
        self.cluster = cluster
        self.processes = cluster.processes
        node = Node(name)
        self.bus = _GatewayEnd(KAFKA, BACKLOG_S, MAX_MESSAGE_BYTES, self._number)
        self.bus.begin(cluster.broker, node)
        self._store = StoreEnd(cluster.store)
        store: Any = self._store
        self._seats = SeatKeeper(store, name, SEAT_TTL_S / 3, MAX_NEW_PER_MIN)
        mover = Mover(self._seats, store, self.bus, name, every_s=1.0, behind_s=cluster.behind_s)
        late: Any = InOrder()
        mover._late = late
        super().__init__(name, node, self.bus, OpenDoor(), Counts(), mover, cluster.new_id)
        self._running = [node.spawn(self._seats.run()), node.spawn(mover.run())]

    def records(self, session_id: SessionId) -> list[Record]:
        return self.cluster.records(session_id)

    def follower(self, rng: random.Random) -> "KafkaSite":
        return KafkaSite(self.cluster)

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
        self.counts.fenced = self.bus.fenced
        self.cluster.numbers[self._number] = False

    async def _end_inside(self) -> None:
        await self.hub.close()
        await self._seats.close()
        await cancel_all(self._running)
        await self.bus.close()

    def check_integrity(self) -> None:
        super().check_integrity()
        self.bus.check_integrity()
