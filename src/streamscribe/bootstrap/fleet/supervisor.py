"""Keeps worker processes alive: what ends, hangs or grows too large is replaced, and its sessions go to the others."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.process import WorkerProcess
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.core.errors import ModelUnavailable, StreamScribeError
from streamscribe.core.restarts import Patience, Restarts
from streamscribe.observe.logs import get_logger
from streamscribe.settings import SettingsError, WorkerSettings

CHECK_EVERY_S = 0.25
START_TIMEOUT_S = 120.0
"""How long a worker may say nothing while it starts: imports and loading hold its interpreter, on a busy machine."""
EXIT_S = 0.5
"""How long the sessions of a worker whose link is closed wait for its exit code, which comes at once as a rule."""
TRIES = 3
"""A worker that ends so often in a row before it is ready will not get ready: something must be changed."""

_log = get_logger(__name__)


class SupervisorObserver(Protocol):
    """Who counts what becomes of workers, on the event loop."""

    def worker_ended(self, cause: str) -> None:
        """One ended or was ended: `exit`, `hang`, `left`, `memory`, `unfit`; or it could not be started: `start`."""
        ...

    def worker_weighs(self, number: int, resident_bytes: int) -> None:
        """So much memory one has; 0 when it is gone."""
        ...


@dataclass(slots=True)
class _Life:
    """How long a worker was ready, if it ever was, why it ended, with how much memory and which exit code (negative:
    the signal); `error`: why none could be started."""

    joined: bool = False
    ready_s: float = 0.0
    cause: str = "stop"
    rss_bytes: int = 0
    exit_code: int = 0
    error: str = ""


class Supervisor:
    """Runs so many workers. One that is ready joins the door and the bus; one that is not any more leaves both.

    A worker that was ready and says nothing for `hang_timeout_s`, or whose models serve nobody for so long, is killed.
    One that outgrows `max_memory_bytes`, or was told by others to leave, gives its sessions away first. Until the first
    worker was ready, one that cannot work, or ends `TRIES` times before it is ready, ends the whole (`run` raises why:
    SettingsError where it is `max_memory_bytes`); later it is tried again, with pauses that double, and the log says
    so. One that cannot be started, as the machine is short of something, counts as one that ended at once.
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
        self.ready = asyncio.Event()
        """Set once the first worker was ready."""

    @property
    def workers(self) -> list[tuple[int, WorkerProcess]]:
        """Those that run and are members, by number."""
        return [(number, self._workers[number]) for number in sorted(self._door.members) if number in self._workers]

    @property
    def running(self) -> list[tuple[int, WorkerProcess]]:
        """Those that run, also those that are not ready yet, by number."""
        return sorted(self._workers.items())

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
        restarts, tries = Restarts(), 0
        while True:
            life = await self._live(number)
            pause_s = restarts.ended(life.ready_s)
            tries = 0 if life.joined else tries + 1
            self._observer.worker_ended(life.cause)
            _log.warning(
                "a worker process ended",
                component=f"worker-{number}",
                reason=life.cause,
                code=life.exit_code,
                seconds=round(pause_s, 1),
                detail=self._why(life),
            )
            if tries >= TRIES:
                self._give_up(number, tries, life)
            await asyncio.sleep(pause_s)

    async def _live(self, number: int) -> "_Life":
        """One life, from its start to its end."""
        life = _Life()
        try:
            worker = await WorkerProcess.start(
                number, self._worker_settings, lambda status: self._door.heard(number, status)
            )
        except OSError as error:
            return _Life(cause="start", error=error.strerror or type(error).__name__)
        self._workers[number] = worker
        try:
            life.cause = await self._until_it_ends(number, worker, life)
        finally:
            del self._workers[number]
            self._observer.worker_weighs(number, 0)
            self._door.leave(number)
            killed = life.cause == "exit" and life.exit_code == -signal.SIGKILL
            self._bus.leave(number, suspect=life.cause in ("exit", "hang"), killed=killed)
            life.exit_code = await asyncio.shield(worker.kill() if life.cause == "hang" else worker.end())
        return life

    async def _until_it_ends(self, number: int, worker: WorkerProcess, life: "_Life") -> str:
        loop, most_bytes = asyncio.get_running_loop(), self._settings.max_memory_bytes
        patience, seen, joined_at = Patience(CHECK_EVERY_S, loop.time()), 0, None
        while not worker.link.closed.done():
            if worker.unfit.done():
                self._unfit(worker.unfit.result())
                return "unfit"
            if worker.leaving.done():
                return "left"
            if joined_at is None and not worker.status.waiting_for:
                self._join(number, worker)
                joined_at, life.joined = loop.time(), True
            alive = worker.statuses > seen and not (joined_at is not None and worker.status.outage)
            seen = worker.statuses
            silent_s = patience.look(alive=alive, now=loop.time())
            if silent_s > (START_TIMEOUT_S if joined_at is None else self._settings.hang_timeout_s):
                return "hang"
            life.rss_bytes = worker.status.rss_bytes
            self._observer.worker_weighs(number, life.rss_bytes)
            if most_bytes and life.rss_bytes > most_bytes:
                return "memory"
            await asyncio.wait((worker.link.closed, worker.unfit, worker.leaving), timeout=CHECK_EVERY_S)
            life.ready_s = 0.0 if joined_at is None else loop.time() - joined_at
        life.exit_code = await worker.exit_code(EXIT_S) or 0
        return "exit"

    def _join(self, number: int, worker: WorkerProcess) -> None:
        self._door.join(number)
        self._bus.join(number, worker.link)
        self.ready.set()
        _log.info("a worker process is ready", component=f"worker-{number}", pid=worker.pid)

    def _why(self, life: _Life) -> str:
        """For who runs the server."""
        match life.cause:
            case "memory":
                return (
                    f"it had {life.rss_bytes} bytes, and worker.max_memory_bytes is {self._settings.max_memory_bytes}"
                )
            case "hang":
                return "it said nothing, or its models served nobody, for too long"
            case "unfit":
                return "it could not load what the settings name"
            case "left":
                return "it was told to leave"
            case "start":
                return f"it could not be started: {life.error}"
        return _ended(life.exit_code)

    def _give_up(self, number: int, tries: int, life: _Life) -> None:
        """Says what is to be changed; raises it while no worker has ever been ready."""
        told = f"worker-{number} ended {tries} times before it was ready: {self._why(life)}"
        error: Exception
        if life.cause == "memory":
            error = SettingsError(f"setting worker.max_memory_bytes: {told}; set more, or 0 for no bound")
        else:
            error = ModelUnavailable(f"{told}; what it said itself is above")
        if not self.ready.is_set():
            raise error
        _log.error("a worker process does not get ready", component=f"worker-{number}", detail=str(error))

    def _unfit(self, error: StreamScribeError) -> None:
        if not self.ready.is_set():
            raise error
        _log.error("a worker process cannot work", code=error.code)


def _ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"it ended with exit code {exit_code}"
    hint = " (is there memory enough?)" if exit_code == -signal.SIGKILL else ""
    return f"it was ended by signal {-exit_code}{hint}"
