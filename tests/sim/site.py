"""A gateway and its worker processes, as `streamscribe serve --workers N` has them, on the real local bus."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Kind
from streamscribe.bus.local.replay import MIN_REPLAY_S
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Record, SessionAbandoned
from streamscribe.gateway.connection import Connection
from streamscribe.gateway.drain import drain
from streamscribe.gateway.hub import Hub
from streamscribe.models.pool import Models
from streamscribe.ports import Tenant
from streamscribe.settings import GatewaySettings, LimitSettings, WorkerSettings
from streamscribe.wire.native import NativeDialect
from streamscribe.worker.runner import Worker
from tests.sim.clock import Node
from tests.sim.models import models_of
from tests.sim.network import Delay, StreamEnd, WebSocket, link_pair
from tests.worker.kit import TEXT, Recorder

TENANT = Tenant(TenantId("tenant"), max_sessions=100)
LIMITS = LimitSettings(resume_window_s=20.0)
GATEWAY = GatewaySettings(drain_timeout_s=6.0, drain_grace_s=0.2)
WORKER = WorkerSettings()
BACKLOG_S = 2.0
HANG_TIMEOUT_S = 2.0

WorkerKind = Callable[..., Worker]
BusKind = Callable[..., LocalGatewayBus]


@dataclass
class Counts:
    """What the platform says of itself."""

    failed: list[str] = field(default_factory=list)
    taken_over: int = 0
    fenced: int = 0
    quarantined: set[SessionId] = field(default_factory=set)

    def session_failed(self, error: StreamScribeError) -> None:
        self.failed.append(error.code)


class _HubObserver:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def session_opened(self, tenant: TenantId) -> None:
        pass

    def session_released(self, tenant: TenantId) -> None:
        pass

    def session_refused(self, error: StreamScribeError) -> None:
        pass

    def session_failed(self, error: StreamScribeError) -> None:
        self._counts.session_failed(error)


class _BusObserver:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def over(self, session_id: SessionId) -> None:
        pass

    def taken_over(self, session_id: SessionId) -> None:
        self._counts.taken_over += 1

    def quarantined(self, session_id: SessionId, index: int) -> None:
        self._counts.quarantined.add(session_id)

    def fenced(self) -> None:
        self._counts.fenced += 1


class Process:
    """One worker process: a real worker on a real link."""

    def __init__(self, number: int, name: str, end: StreamEnd, worker: Worker, models: Models) -> None:
        self.number = number
        self.name = name
        self.node = end.node
        self.worker = worker
        self.cause = "exit"
        self.joined = False
        self._end = end
        self._models = models
        self._running = self.node.spawn(worker.run())

    @property
    def alive(self) -> bool:
        return not self._running.done()

    async def end(self) -> None:
        """As SIGKILL: what it had said is on its way, and nothing more comes."""
        self._end.kill()
        self.node.thaw()
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        for part in self._models.replicas:
            part.close()
        self.worker.check_integrity()
        assert self.worker.sessions == 0


class Site:
    """A gateway with `size` workers; one that ends is followed by another."""

    def __init__(
        self, name: str, rng: random.Random, size: int, *, worker: WorkerKind = Worker, bus: BusKind = LocalGatewayBus
    ) -> None:
        self.name = name
        self.counts = Counts()
        self.node = Node(name)
        self.published: dict[SessionId, list[Record]] = defaultdict(list)
        """All records that each session gave to the bus, by its id there."""
        self.called: dict[str, list[SessionId]] = defaultdict(list)
        """The ids on the bus that a client's sessions had, by its name."""
        self.processes: dict[int, Process] = {}
        self.closed_at: float | None = None
        self._rng = rng
        self._worker_kind = worker
        loop = asyncio.get_running_loop()
        self.door = FleetDoor(LIMITS, lambda reason: None, loop.time)
        self.bus = bus(BACKLOG_S, MIN_REPLAY_S, self.door.place, _BusObserver(self.counts))
        self.hub = Hub(_Tap(self.bus, self.published), LIMITS, _HubObserver(self.counts), self.door)
        self._keepers = [loop.create_task(self._keep(number)) for number in range(size)]
        self._connections: set[asyncio.Task[None]] = set()
        self._restart_s = lambda: rng.uniform(0.1, 1.0)
        self.outage_until = 0.0
        """No worker starts before."""

    def serve(self, socket: WebSocket, name: str) -> None:
        """Serves a client's connection."""
        task = self.node.spawn(self._serve(socket, name))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, socket: WebSocket, name: str) -> None:
        connection = Connection(
            self.hub,
            LIMITS,
            TENANT,
            SessionOptions(),
            dialect=NativeDialect(SessionOptions()),
            receive=socket.receive,
            send=socket.send,
            transport=socket,
            resumable=True,
        )
        serving = connection.serve(SessionId(name))
        live_before = self.hub.session(TENANT.tenant_id, name)
        asyncio.get_running_loop().call_soon(self._note, name, live_before)
        await serving

    def _note(self, name: str, before: object) -> None:
        live = self.hub.session(TENANT.tenant_id, name)
        if live is not None and live is not before and live.bus_id not in self.called[name]:
            self.called[name].append(live.bus_id)

    # workers

    async def _keep(self, number: int) -> None:
        """One place for a worker, as the supervisor keeps it."""
        loop = asyncio.get_running_loop()
        lives = 0
        while True:
            while loop.time() < self.outage_until:
                await asyncio.sleep(self.outage_until - loop.time())
            node = Node(f"{self.name}-worker-{number}-{lives}")
            lives += 1
            delay = Delay(self._rng, 0.003, slow=0.02, slow_s=0.3)
            (_, link), (far_end, far_link) = link_pair(self.node, node, self._rng, delay)
            models = models_of(self._rng, first_pass=True, cost_s=self._rng.choice((0.002, 0.02, 0.2)))
            bus = LocalWorkerBus(far_link)
            process = Process(number, node.name, far_end, self._worker_kind(bus, models, TEXT, WORKER, Recorder()), models)
            self.processes[number] = process
            try:
                await asyncio.sleep(self._rng.uniform(0, 0.3))
                if not link.closed.done():
                    self.door.join(number)
                    self.bus.join(number, link)
                    process.joined = True
                await self._until_it_ends(process, link.closed)
                self.door.leave(number)
                self.bus.leave(number, suspect=process.cause in ("exit", "hang"))
                if process.cause == "moved":  # told to go, it still speaks for a while
                    await asyncio.sleep(self._rng.uniform(0, 2.0))
            finally:
                del self.processes[number]
                self.door.leave(number)
                self.bus.leave(number, suspect=False)
                await asyncio.shield(process.end())
                link.close()
            await asyncio.sleep(self._restart_s())

    async def _until_it_ends(self, process: Process, closed: asyncio.Future[StreamScribeError | None]) -> None:
        frozen_s = 0.0
        while not closed.done() and process.cause != "moved":
            await asyncio.wait((closed,), timeout=0.1)
            frozen_s = frozen_s + 0.1 if process.node.frozen else 0.0
            if frozen_s > HANG_TIMEOUT_S:
                process.cause = "hang"
                return
        if closed.done():
            assert closed.result() is None, f"a link ended with {closed.result()!r}"

    # its end

    async def drain(self) -> None:
        """The gateway goes: its sessions end with their finals, or when the time is over."""
        await self.node.spawn(drain(self.hub, GATEWAY))

    async def close(self) -> None:
        """Ends everything; nothing may be left."""
        self.node.thaw()
        await self.hub.close()
        await self.bus.close()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        for keeper in self._keepers:
            if not keeper.cancelled():
                keeper.result()

    def check_integrity(self) -> None:
        """All ledgers' equations."""
        self.hub.check_integrity()
        self.bus.check_integrity()
        self.door.check_integrity()
        for process in self.processes.values():
            if not process.node.frozen:
                process.worker.check_integrity()


class _Tap:
    """A gateway's end of the bus that notes what was published."""

    def __init__(self, bus: LocalGatewayBus, published: dict[SessionId, list[Record]]) -> None:
        self._bus = bus
        self._published = published
        self.durability = bus.durability
        self.room = bus.room
        self.attach_gateway = bus.attach_gateway
        self.close = bus.close

    async def publish(self, record: Record) -> None:
        if not isinstance(record, SessionAbandoned):
            self._published[record.session_id].append(record)
        await self._bus.publish(record)


def control_kind() -> Kind:
    """The kind of frame that the supervisor's words have."""
    return Kind.CONTROL
