"""A gateway of a cluster: sessions here, models elsewhere."""

import asyncio
import os
import socket
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from streamscribe.audio.decode import DecoderPool
from streamscribe.bootstrap.cluster.health import Health
from streamscribe.bootstrap.kafka import need_kafka
from streamscribe.bootstrap.platform import decoding
from streamscribe.bootstrap.sessions import open_shared_sessions
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.cluster_metrics import ClusterMetrics
from streamscribe.observe.load import OUTAGE, LoadControl
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import KafkaSettings, Settings

BUS, STORE = "bus", "store"


@dataclass(frozen=True, slots=True)
class ClusterGateway:
    """`bootstrap.parts.Parts` without models: nothing here is kept, warmed or replaced."""

    hub: Hub
    decoders: DecoderPool
    exposition: Metrics
    health: Health
    desk: None = None
    reloads: None = None

    @property
    def warmup_s(self) -> Mapping[str, float]:
        """Nothing is warmed here."""
        return {}

    def waiting_for(self) -> list[str]:
        """What does not answer of the bus and the store."""
        return self.health.lacking()

    async def wait_ready(self) -> None:
        """At once: bus and store have answered before it was given."""


class ClusterDoor:
    """Lets nobody in whose audio could not be carried; the rest is the load's affair (of this process)."""

    def __init__(self, load: LoadControl, health: Health, metrics: Metrics, *, without_store: bool) -> None:
        """`without_store`: sessions are let in, by this gateway's own quotas, while the store does not answer."""
        self._load = load
        self._health = health
        self._metrics = metrics
        self._needed = (BUS,) if without_store else (BUS, STORE)

    def admit(
        self, options: SessionOptions, session_id: SessionId, *, yields: bool = False, resumes: bool = False
    ) -> StreamScribeError | None:
        """Counts a session, or says why not."""
        for name in self._needed:
            if (error := self._health.error(name)) is not None:
                self._metrics.session_shed(OUTAGE)
                return type(error)(retry_after_s=error.retry_after_s)
        return self._load.admit(options, session_id, yields=yields, resumes=resumes)

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        """The session is over."""
        self._load.release(options, session_id)


@asynccontextmanager
async def cluster_gateway(settings: Settings, name: str | None = None) -> AsyncIterator[ClusterGateway]:
    """A running gateway, of a `name` that no other has. Raises SettingsError for what is not set, BusUnavailable and
    StoreUnavailable at the start.

    Ends with BusUnavailable when results cannot be read any more: only a new start helps.
    """
    need_kafka()
    from streamscribe.bus.kafka.gateway import KafkaGatewayBus

    name = name or gateway_name()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        store = open_shared_sessions(settings.store)
        stack.push_async_callback(store.close)
        await store.check()
        bus = KafkaGatewayBus(
            settings.kafka,
            settings.limits.max_backlog_s,
            settings.limits.max_message_bytes,
            gateway_number(settings.kafka, name),
        )
        await bus.start()
        stack.push_async_callback(bus.close)
        figures = {
            "streamscribe_fenced_events": lambda: float(bus.fenced),
            "streamscribe_dead_letters": lambda: float(bus.dead_letters),
            "streamscribe_store_failures": lambda: float(store.counts().failures),
        }
        ClusterMetrics(metrics.registry, figures)
        health = Health({BUS: bus.check, STORE: store.check})
        load = LoadControl(settings.limits, metrics.session_shed)
        door = ClusterDoor(load, health, metrics, without_store=settings.store.admit_when_away)
        seats = SeatKeeper(store, name, settings.store.seat_ttl_s / 3)
        mover = Mover(seats, store, bus, name, settings.store.seat_ttl_s / 3)
        hub = Hub(bus, settings.limits, metrics, door, mover)
        decoders = await stack.enter_async_context(decoding(settings))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())

        def lagged(seconds: float) -> None:
            metrics.loop_lagged(seconds)
            load.loop_lagged(seconds)

        async def fail_with_bus() -> None:
            raise await bus.failed()

        works = (seats.run(), mover.run(), health.watch(), probe_event_loop(lagged), fail_with_bus())
        running = [tasks.create_task(work) for work in works]
        try:
            yield ClusterGateway(hub, decoders, metrics, health)
        finally:
            await hub.close()
            await seats.close()
            for task in running:
                task.cancel()


def gateway_name() -> str:
    """Of this process, and no other."""
    return f"{socket.gethostname()}-{os.getpid()}"[-64:].lstrip("-")


def gateway_number(kafka: KafkaSettings, name: str) -> int:
    """The partition of results that this gateway reads."""
    if kafka.gateway_number >= 0:
        return kafka.gateway_number
    return zlib.crc32(name.encode()) % kafka.result_partitions
