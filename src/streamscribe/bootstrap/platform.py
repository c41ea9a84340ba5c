"""Gateway and worker in one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bootstrap.caches import Caches
from streamscribe.bootstrap.desk import LevelsDesk
from streamscribe.bootstrap.reload import Reloading
from streamscribe.bootstrap.worker_side import worker_side
from streamscribe.bus.memory import MemoryBus
from streamscribe.gateway.hub import Hub
from streamscribe.models.pool import Models
from streamscribe.observe.load import EVENT_LOOP, LoadControl
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import Settings


@dataclass(frozen=True, slots=True)
class Platform:
    """One process' parts, without a listener: sessions of `hub` are recognised by the worker behind it."""

    settings: Settings
    metrics: Metrics
    models: Models
    hub: Hub
    decoders: DecoderPool
    caches: Caches
    reloads: Reloading
    desk: LevelsDesk

    @property
    def exposition(self) -> Metrics:
        """All metrics."""
        return self.metrics

    @property
    def warmup_s(self) -> dict[str, float]:
        """How long each model took to be warm."""
        return self.models.warmup_s

    def waiting_for(self) -> list[str]:
        """The models that are not ready."""
        return [f"model {name}" for name in self.models.not_ready()]

    async def wait_ready(self) -> None:
        """Returns when all models are warm; raises ModelUnavailable when one failed."""
        await asyncio.to_thread(self.models.wait_ready)


@asynccontextmanager
async def platform(settings: Settings) -> AsyncIterator[Platform]:
    """A running platform; models load before it is given and warm up while it is in use (`wait_ready`)."""
    metrics = Metrics()
    load = LoadControl(settings.limits, metrics.session_shed)
    bus = MemoryBus(settings.limits.max_backlog_s)
    hub = Hub(bus, settings.limits, metrics, load)
    async with AsyncExitStack() as stack:
        side = await stack.enter_async_context(
            worker_side(settings, bus, metrics, load, watch=partial(_watch_load, metrics, load))
        )
        load.outage = side.models.outage
        decoders = await stack.enter_async_context(decoding(settings))
        try:
            desk = LevelsDesk(side.caches.levels)
            yield Platform(settings, metrics, side.models, hub, decoders, side.caches, side.reloading, desk)
        finally:
            await hub.close()
            await bus.close()


@asynccontextmanager
async def decoding(settings: Settings) -> AsyncIterator[DecoderPool]:
    """The decoders of files."""
    decoders = DecoderPool(DecodeLimits.from_settings(settings.limits), max_children=settings.limits.max_files)
    await decoders.start()
    try:
        yield decoders
    finally:
        await decoders.close()


def _watch_load(metrics: Metrics, load: LoadControl, models: Models) -> None:
    for replica in models.replicas:
        metrics.inflight_watched(replica.name, partial(models.inflight, replica.name))
        metrics.utilisation_watched(replica.name, partial(load.utilisation, replica.name))
    for where in (*(replica.name for replica in models.replicas), EVENT_LOOP):
        metrics.lag_watched(where, partial(load.lag_p95_s, where))
