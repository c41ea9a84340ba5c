"""A gateway of the simulation: a real hub and real connections, on whichever bus."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Record, SessionAbandoned, SessionOpened
from streamscribe.gateway.connection import Connection
from streamscribe.gateway.door import Admission, random_id
from streamscribe.gateway.drain import drain
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.register import Register
from streamscribe.models.pool import Models
from streamscribe.ports import GatewayBus, Tenant
from streamscribe.settings import GatewaySettings, LimitSettings
from streamscribe.wire.native import NativeDialect
from streamscribe.worker.runner import Worker
from tests.sim.clock import Node
from tests.sim.network import WebSocket

TENANT = TenantId("tenant")
LIMITS = LimitSettings(resume_window_s=20.0)
GATEWAY = GatewaySettings(drain_timeout_s=10.0, drain_grace_s=0.2)
BACKLOG_S = 2.0


class InOrder(dict[Any, None]):
    """A set in the order of coming: that of a set depends on where things lie in memory, or on a process' secrets."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


@dataclass
class Counts:
    """What the platform says of itself."""

    failed: list[str] = field(default_factory=list)
    taken_over: int = 0
    moved_here: int = 0
    fenced: int = 0
    stale: list[str] = field(default_factory=list)
    """What an owner told that a newer one had spoken after, and the hub heard (law 2)."""
    quarantined: set[SessionId] = field(default_factory=set)
    ended: int = 0
    """Workers that ended by themselves, but for those that ended by what is deadly."""


class _HubObserver:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def session_opened(self, tenant: TenantId) -> None:
        pass

    def session_released(self, tenant: TenantId) -> None:
        pass

    def session_refused(self, error: StreamScribeError) -> None:
        pass

    def session_shed(self, reason: str) -> None:
        pass

    def stopped_watched(self, count: Callable[[], int]) -> None:
        pass

    def session_failed(self, error: StreamScribeError) -> None:
        self._counts.failed.append(error.code)


class WorkerProcess:
    """A worker of the simulation, as faults see it."""

    node: Node
    cause = "exit"
    """Why it ends: `exit`, `hang`, `memory`, or `moved` once it is told to go."""
    joined = False
    ended = False

    def __init__(self, node: Node, worker: Worker, models: Models) -> None:
        self.node = node
        self.worker = worker
        self._models = models
        self._running = node.spawn(worker.run())

    async def end(self) -> None:
        """As SIGKILL: what it had said is on its way, and nothing more comes."""
        raise NotImplementedError

    async def _stop_worker(self) -> None:
        self.ended = True
        self.node.thaw()
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        for part in self._models.replicas:
            part.close()
        self.worker.check_integrity()
        assert self.worker.sessions == 0


class GatewayProcess:
    """A gateway with its clients' connections; `processes` are the workers that may hear them."""

    processes: dict[int, WorkerProcess]
    settings = GATEWAY
    max_sessions = 100
    """Of all clients' tenant."""

    def __init__(
        self,
        name: str,
        node: Node,
        bus: GatewayBus,
        admission: Admission,
        counts: Counts,
        register: Register | None = None,
        new_id: Callable[[TenantId], SessionId] = random_id,
    ) -> None:
        self.name = name
        self.node = node
        self.counts = counts
        self.published: dict[SessionId, list[Record]] = defaultdict(list)
        """All records that each session gave to the bus, by its id there."""
        self.drained = False
        self.closed = False
        """It is gone, in good order or not."""
        self.sockets: InOrder = InOrder()
        door = _Door(admission)
        self.hub = Hub(_Tap(bus, self.published, door), LIMITS, _HubObserver(counts), door, register, new_id)
        self._connections: InOrder = InOrder()

    def serve(self, socket: WebSocket, name: str) -> None:
        """Serves a client's connection."""
        if self.closed:
            socket.sever(0.0)
            return
        self.sockets.add(socket)
        task = self.node.spawn(self._serve(socket, name))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, socket: WebSocket, name: str) -> None:
        connection = Connection(
            self.hub,
            LIMITS,
            Tenant(TENANT, self.max_sessions),
            SessionOptions(),
            dialect=NativeDialect(SessionOptions()),
            receive=socket.receive,
            send=socket.send,
            transport=socket,
            resumable=True,
        )
        try:
            await connection.serve(SessionId(name))
        except asyncio.CancelledError:  # what the process had not closed breaks with its end
            socket.sever(0.0)
            raise
        finally:
            self.sockets.discard(socket)

    def records(self, session_id: SessionId) -> list[Record]:
        """What the bus has of a session."""
        return self.published.get(session_id, [])

    async def drain(self) -> None:
        """The gateway goes: its sessions end with their finals, or when the time is over."""
        self.drained = True
        await self.node.spawn(drain(self.hub, self.settings))

    async def failed(self) -> None:
        """Returns when it cannot go on."""
        await asyncio.get_running_loop().create_future()

    async def follower(self) -> "GatewayProcess":
        """The one that takes its place once it has drained."""
        raise NotImplementedError

    def outage(self, until: float) -> None:
        """No worker starts before."""
        raise NotImplementedError

    def lose(self, what: str, until: float) -> None:
        """The `store` or the `broker` is away until then, where there is one; the store comes back `empty`."""

    async def die(self) -> None:
        """As SIGKILL, where that ends no more than itself."""

    async def lose_bus(self) -> None:
        """Its bus fails, where it has one of its own; then it ends."""

    async def close(self) -> None:
        """Ends everything; nothing may be left."""
        raise NotImplementedError

    async def _close_connections(self) -> None:
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def check_integrity(self) -> None:
        """All ledgers' equations."""
        self.hub.check_integrity()


class _Door:
    """A door that notes who is inside, and as what."""

    def __init__(self, door: Admission) -> None:
        self._door = door
        self._inside: dict[SessionId, SessionOptions] = {}

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        assert session_id not in self._inside
        refusal = self._door.admit(options, session_id, tenant, yields=yields, resumes=resumes)
        if refusal is None:
            self._inside[session_id] = options
        return refusal

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        assert self._inside.pop(session_id) == options
        self._door.release(options, session_id)

    def check(self, opened: SessionOpened) -> None:
        """A worker hears as many voices of the session as the door has let in."""
        inside = self._inside[opened.session_id]
        assert (inside.live, inside.audio.channels) == (opened.options.live, opened.options.audio.channels)


class _Tap:
    """A gateway's end of the bus that notes what was published."""

    def __init__(self, bus: GatewayBus, published: dict[SessionId, list[Record]], door: _Door) -> None:
        self._bus = bus
        self._published = published
        self._door = door
        self.durability = bus.durability
        self.room = bus.room
        self.attach_gateway = bus.attach_gateway
        self.close = bus.close

    async def publish(self, record: Record) -> None:
        if isinstance(record, SessionOpened):
            self._door.check(record)
        if not isinstance(record, SessionAbandoned):
            self._published[record.session_id].append(record)
        await self._bus.publish(record)
