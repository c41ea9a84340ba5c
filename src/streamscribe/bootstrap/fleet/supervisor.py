"""Keeps worker processes alive: what ends, hangs or grows too large is replaced, and its sessions go to the others."""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.process import WorkerProcess
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.restarts import Restarts
from streamscribe.observe.logs import get_logger
from streamscribe.settings import WorkerSettings
from streamscribe.wire.worker_control import Status

CHECK_EVERY_S = 0.25

_log = get_logger(__name__)


class SupervisorObserver(Protocol):
    """Who counts what becomes of workers, on the event loop."""

    def worker_ended(self, cause: str) -> None:
        """One ended or was ended: `exit`, `hang`, `memory`, `unfit`."""
        ...


class Supervisor:
    """Runs so many workers. One that is ready joins the door and the bus; one that is not any more leaves both.

    A worker that says nothing for `hang_timeout_s`, or whose models serve nobody for so long, is killed. One that
    outgrows `max_memory_bytes` gives its sessions away first. Until the first worker was ready, one that cannot work
    ends the whole (`run` raises its error); later it is tried again, with pauses that double.
    """

    def __init__(
        self,
        bus: LocalGatewayBus,
        door: FleetDoor,
        settings: WorkerSettings,
        observer: SupervisorObserver,
        worker_settings: Callable[[], dict[str, Any]],
    ) -> None:
        self._bus = bus
        self._door = door
        self._settings = settings
        self._observer = observer
        self._worker_settings = worker_settings
        self._workers: dict[int, WorkerProcess] = {}
        self._was_ready = False
        self.ready = asyncio.Event()
        """Set while at least one worker is ready, and once the first was."""

    @property
    def workers(self) -> list[tuple[int, WorkerProcess]]:
        """Those that run and are members, by number."""
        return [(number, self._workers[number]) for number in sorted(self._door.members) if number in self._workers]

    def waiting_for(self) -> list[str]:
        """What is not ready; nothing where one worker is."""
        return [] if self._door.members else ["workers"]

    async def run(self) -> None:
        """Until cancelled; then all workers are told to leave."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._settings.processes):
                    tasks.create_task(self._keep(number))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _keep(self, number: int) -> NoReturn:
        loop, restarts = asyncio.get_running_loop(), Restarts()
        while True:
            began_s = loop.time()
            cause = await self._live(number)
            pause_s = restarts.ended(loop.time() - began_s)
            self._observer.worker_ended(cause)
            _log.warning(
                "a worker process ended", component=f"worker-{number}", reason=cause, seconds=round(pause_s, 1)
            )
            await asyncio.sleep(pause_s)

    async def _live(self, number: int) -> str:
        """One life, from its start to its end; why it ended."""
        settings = self._worker_settings()
        worker = await WorkerProcess.start(number, settings, lambda status: self._heard(number, status))
        self._workers[number] = worker
        cause = "exit"
        try:
            cause = await self._until_it_ends(number, worker)
        finally:
            del self._workers[number]
            self._door.leave(number)
            self._bus.leave(number, suspect=cause in ("exit", "hang"))
            await asyncio.shield(worker.kill() if cause == "hang" else worker.end())
        return cause

    async def _until_it_ends(self, number: int, worker: WorkerProcess) -> str:
        loop, well_at = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        most_bytes = self._settings.max_memory_bytes
        joined = False
        while not worker.link.closed.done():
            if worker.unfit.done():
                self._unfit(worker.unfit.result())
                return "unfit"
            if not joined and not worker.status.waiting_for:
                self._join(number, worker)
                joined = True
            well_at = worker.heard_at if not (joined and worker.status.outage) else well_at
            if loop.time() - well_at > self._settings.hang_timeout_s:
                return "hang"
            if most_bytes and worker.status.rss_bytes > most_bytes:
                return "memory"
            await asyncio.wait((worker.link.closed, worker.unfit), timeout=CHECK_EVERY_S)
        return "exit"

    def _join(self, number: int, worker: WorkerProcess) -> None:
        self._door.join(number)
        self._bus.join(number, worker.link)
        self._was_ready = True
        self.ready.set()
        _log.info("a worker process is ready", component=f"worker-{number}", pid=worker.pid)

    def _heard(self, number: int, status: Status) -> None:
        self._door.heard(number, status)

    def _unfit(self, error: StreamScribeError) -> None:
        if not self._was_ready:
            raise error
        _log.error("a worker process cannot work", code=error.code)
