"""A gateway and its worker processes, as `streamscribe serve --workers N` has them, on the real local bus."""

import asyncio
import random

from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.replay import MIN_REPLAY_S
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened
from streamscribe.models.pool import Models
from streamscribe.settings import WorkerSettings
from streamscribe.worker.runner import Worker
from tests.sim.clock import Node
from tests.sim.gateway import BACKLOG_S, LIMITS, Counts, GatewayProcess, WorkerProcess
from tests.sim.models import IsDeadlySegment, ends_at, models_of
from tests.sim.network import Delay, StreamEnd, link_pair
from tests.worker.kit import TEXT, Recorder

HANG_TIMEOUT_S = 2.0


class _BusObserver:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def over(self, session_id: SessionId) -> None:
        pass

    def taken_over(self, opened: SessionOpened) -> None:
        self._counts.taken_over += 1

    def quarantined(self, opened: SessionOpened, index: int) -> None:
        self._counts.quarantined.add(opened.session_id)

    def fenced(self) -> None:
        self._counts.fenced += 1


class LocalWorker(WorkerProcess):
    """A real worker on a real link."""

    def __init__(self, end: StreamEnd, bus: LocalWorkerBus, worker: Worker, models: Models) -> None:
        super().__init__(end.node, worker, models)
        self._end, self._bus = end, bus
        bus.steps = worker.steps
        self.killed = False
        """In a step."""

    def end_at_once(self) -> None:
        """Nothing more runs in its process, and what it had said is on its way."""
        self.killed = True
        self.node.freeze()
        self._end.kill()

    async def end(self) -> None:
        self._end.kill()
        await self._bus.close()
        await self._stop_worker()


class Site(GatewayProcess):
    """A gateway with `size` workers; one that ends is followed by another."""

    def __init__(self, name: str, rng: random.Random, size: int, is_deadly_segment: IsDeadlySegment) -> None:
        """Workers end in a step for a segment that is deadly."""
        self._rng, self._is_deadly_segment = rng, is_deadly_segment
        self.processes = {}
        loop = asyncio.get_running_loop()
        counts = Counts()
        self.door = FleetDoor(LIMITS, lambda reason: None, loop.time)
        self.bus = LocalGatewayBus(BACKLOG_S, MIN_REPLAY_S, self.door.place, _BusObserver(counts))
        super().__init__(name, Node(name), self.bus, self.door, counts)
        self._outage_until = 0.0
        self._keepers = [loop.create_task(self._keep(number)) for number in range(size)]

    async def _keep(self, number: int) -> None:
        """One place for a worker, as the supervisor keeps it."""
        loop, rng, lives = asyncio.get_running_loop(), self._rng, 0
        while True:
            while loop.time() < self._outage_until:
                await asyncio.sleep(self._outage_until - loop.time())
            node = Node(f"{self.name}-worker-{number}-{lives}")
            lives += 1
            (_, link), (far_end, far_link) = link_pair(self.node, node, rng, Delay(rng, 0.003, slow=0.02, slow_s=0.3))
            models = models_of(rng, first_pass=True, cost_s=rng.choice((0.002, 0.02, 0.2)))
            bus = LocalWorkerBus(far_link)
            worker = Worker(bus, models, TEXT, WorkerSettings(), Recorder())
            process = self.processes[number] = LocalWorker(far_end, bus, worker, models)
            ends_at(models, self._is_deadly_segment, process.end_at_once)
            try:
                await asyncio.sleep(rng.uniform(0, 0.3))
                if not link.closed.done():
                    self.door.join(number)
                    self.bus.join(number, link)
                    process.joined = True
                await _until_it_ends(process, link.closed)
                self.door.leave(number)
                by_itself = process.cause in ("exit", "hang")
                self.counts.ended += by_itself and not process.killed
                by_kernel = process.killed and lives % 2 == 0  # for memory, as it may seem
                killed = process.cause == "exit" and (by_kernel or not process.killed)
                self.bus.leave(number, suspect=by_itself, killed=killed)
                if process.cause == "moved":  # it still speaks for a while
                    await asyncio.sleep(rng.uniform(0, 2.0))
            finally:
                del self.processes[number]
                self.door.leave(number)
                self.bus.leave(number, suspect=False)
                await asyncio.shield(process.end())
                link.close()
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    async def follower(self) -> "Site":
        return Site(f"{self.name}+", self._rng, len(self._keepers), self._is_deadly_segment)

    def outage(self, until: float) -> None:
        self._outage_until = until

    async def close(self) -> None:
        self.node.thaw()
        await self.hub.close()
        await self.bus.close()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)
        await self._close_connections()
        for keeper in self._keepers:
            if not keeper.cancelled():
                keeper.result()

    def check_integrity(self) -> None:
        super().check_integrity()
        self.bus.check_integrity()
        self.door.check_integrity()
        for process in self.processes.values():
            if not process.node.frozen:
                process.worker.check_integrity()


async def _until_it_ends(process: LocalWorker, closed: asyncio.Future[StreamScribeError | None]) -> None:
    frozen_s = 0.0
    while not closed.done() and process.cause != "moved":
        await asyncio.wait((closed,), timeout=0.1)
        frozen_s = frozen_s + 0.1 if process.node.frozen else 0.0
        if frozen_s > HANG_TIMEOUT_S:
            process.cause = "hang"
            return
    if closed.done():
        assert closed.result() is None, f"a link ended with {closed.result()!r}"
