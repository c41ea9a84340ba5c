"""A gateway in this process, and its worker processes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from streamscribe.audio.decode import DecoderPool
from streamscribe.bootstrap.desk import WorkersDesk
from streamscribe.bootstrap.fleet import settings as shares
from streamscribe.bootstrap.fleet.desk import FleetExposition, ask_all
from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.supervisor import Supervisor
from streamscribe.bootstrap.platform import decoding
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.replay import MIN_REPLAY_S
from streamscribe.core.errors import StreamScribeError
from streamscribe.gateway.hub import Hub
from streamscribe.observe.fleet_metrics import FleetMetrics
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import ModelSettings, Settings

RELOAD_TIMEOUT_S = 900.0
"""Loading and warming a large model, on each worker after the other."""

_log = get_logger(__name__)


class FleetReloads:
    """Brings the models of one worker after the other to other settings; those that start later begin with them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.supervisor: Supervisor

    async def to(self, settings: ModelSettings) -> None:
        """Returns when all were asked, who starts just now too; what a worker refuses is in its logs."""
        self.settings = self.settings.model_copy(update={"model": settings})
        model = shares.model_for_worker(self.settings)
        for number, worker in self.supervisor.running:
            try:
                await worker.ask("reload", settings=model, timeout_s=RELOAD_TIMEOUT_S)
            except StreamScribeError as error:
                name, detail = f"worker-{number}", error.message
                _log.error("models are not replaced", component=name, code=error.code, detail=detail)


@dataclass(frozen=True, slots=True)
class FleetPlatform:
    """`bootstrap.parts.Parts` over worker processes."""

    hub: Hub
    decoders: DecoderPool
    exposition: FleetExposition
    desk: WorkersDesk
    reloads: FleetReloads
    supervisor: Supervisor

    @property
    def warmup_s(self) -> Mapping[str, float]:
        """How long each model took in the first worker that is ready."""
        return next((worker.status.warmup_s for _, worker in self.supervisor.workers), {})

    def waiting_for(self) -> list[str]:
        """`workers`, while none is ready."""
        return self.supervisor.waiting_for()

    async def wait_ready(self) -> None:
        """Returns when the first worker is ready; what keeps all from being ends the whole platform."""
        await self.supervisor.ready.wait()


@asynccontextmanager
async def fleet_platform(settings: Settings) -> AsyncIterator[FleetPlatform]:
    """A running platform of `worker.processes` processes; they start before it is given (`wait_ready`).

    Raises SettingsError for what several processes cannot share. Ends, whatever is done with it meanwhile, with what
    keeps all workers from being ready at the start, and with a defect of who keeps them.
    """
    shares.check(settings)
    metrics = Metrics()
    observer = FleetMetrics(metrics.registry)
    door = FleetDoor(settings.limits, metrics.session_shed)
    observer.workers_watched(lambda: len(door.members))
    bus = LocalGatewayBus(settings.limits.max_backlog_s, MIN_REPLAY_S, door.place, observer)
    hub = Hub(bus, settings.limits, metrics, door)
    reloads = FleetReloads(settings)
    supervisor = Supervisor(bus, door, settings.worker, observer, lambda: shares.for_worker(reloads.settings))
    reloads.supervisor = supervisor
    exposition, desk = FleetExposition(metrics, supervisor, door), WorkersDesk(partial(ask_all, supervisor))
    async with AsyncExitStack() as stack:
        decoders = await stack.enter_async_context(decoding(settings))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        works = (supervisor.run(), probe_event_loop(partial(_lagged, metrics, door)))
        running = [tasks.create_task(work) for work in works]
        try:
            yield FleetPlatform(hub, decoders, exposition, desk, reloads, supervisor)
        finally:
            await hub.close()
            await bus.close()
            for task in running:
                task.cancel()


def _lagged(metrics: Metrics, door: FleetDoor, seconds: float) -> None:
    metrics.loop_lagged(seconds)
    door.loop_lagged(seconds)
